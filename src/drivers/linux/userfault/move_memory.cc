// See move_memory.h.
#include "drivers/linux/userfault/move_memory.h"

#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "drivers/linux/calls/own_mapping.h"

namespace ebb {
namespace {

constexpr int kReadWrite = PROT_READ | PROT_WRITE;
constexpr int kPollPauseUs = 1000;

}  // namespace

Status MoveMemory::make(std::size_t block_bytes, std::uint32_t blocks, std::uint32_t frames,
                        std::unique_ptr<MoveMemory>& memory) {
  std::unique_ptr<MoveMemory> made(new MoveMemory);
  made->block_bytes_ = block_bytes;
  if (const Status status = Userfault::open(made->userfault_); status != Status::kOk) return status;
  if (!made->userfault_.can_move()) return Status::kUnsupported;
  for (const auto& [range, bytes] :
       {std::pair{&made->space_, block_bytes * blocks}, std::pair{&made->home_, block_bytes * frames},
        std::pair{&made->scratch_, block_bytes}}) {
    if (const Status status = Reservation::make(bytes, kReadWrite, *range); status != Status::kOk) return status;
  }
  // In the space no page is ever made, but a touch of what it does not take for a huge page leaves a page table behind,
  // and UFFDIO_MOVE splits the huge page that comes next to fill it: for good, and ten times as slow from then on.
  for (const Reservation* range : {&made->scratch_, &made->space_}) {
    own::madvise(range->data(), range->bytes(), MADV_HUGEPAGE);
  }
  for (const Reservation* range : {&made->space_, &made->home_}) {
    if (made->userfault_.watch(range->data(), range->bytes()) != 0) return Status::kUnsupported;
  }
  if (const Status status = PageMoves::open(made->userfault_, made->moves_); status != Status::kOk) return status;
  made->marks_ = ZeroedArray<Mark>(blocks);
  made->interrupt_fd_ = open_bell();
  if (!made->interrupt_fd_.valid()) return Status::kNoMemory;
  const bool waits = made->userfault_.rung() == Userfault::Rung::kFull;
  made->calls_ = CompletedCalls(made->space_.data(), made->space_.bytes(), !waits, true);
  memory = std::move(made);
  return Status::kOk;
}

void MoveMemory::leave_out_of_core_dumps() {
  for (Reservation* const range : {&space_, &home_, &scratch_}) range->leave_out_of_core_dumps();
}

Status MoveMemory::create(FrameIndex frame) {
  const std::lock_guard lock(scratch_mutex_);
  std::byte* const scratch = scratch_.data();
  if (own::madvise(scratch, block_bytes_, MADV_POPULATE_WRITE) != 0) {
    if (errno != EINVAL) return Status::kNoMemory;
    std::memset(scratch, 0, block_bytes_);  // kernels before 5.14
  }
  return moves_.bring(home_address(frame), scratch, block_bytes_);
}

void MoveMemory::destroy(FrameIndex frame) { PageMoves::drop(home_address(frame), block_bytes_); }

void MoveMemory::attach(FrameIndex frame, BlockIndex block) {
  if (AdoptedMemory* const adopted = adopter_of(block)) return adopted->attach(home_address(frame), block);
  clear_failure(block);
  marks_[block.value()] = Mark::kAttached;
  if (moves_.bring(address(block), home_address(frame), block_bytes_) != Status::kOk) lose_missing(block);
}

// What of a block has no page is poisoned, so that nobody takes it for discarded.
void MoveMemory::lose_missing(BlockIndex block) {
  write_all(
      STDERR_FILENO,
      "ebb: the system has had no memory for a page for many seconds: what was in it is lost, and a touch of it fails "
      "with SIGBUS\n");
  if (moves_.poison_missing(address(block), block_bytes_)) return;
  // Without memory for a mark either, all of it: no way is left for wrong bytes.
  EBB_CHECK(own::mprotect(address(block), block_bytes_, PROT_NONE) == 0);
  marks_[block.value()] = Mark::kBarred;
}

Status MoveMemory::detach(BlockIndex block, FrameIndex frame) {
  if (AdoptedMemory* const adopted = adopter_of(block)) return adopted->detach(block, home_address(frame));
  if (marks_[block.value()] == Mark::kBarred) return Status::kBusy;  // it lacks pages
  const Status status = moves_.take(home_address(frame), address(block), block_bytes_);
  if (status == Status::kNoMemory) lose_missing(block);
  if (status != Status::kOk) return Status::kBusy;
  marks_[block.value()] = Mark::kAbsent;
  return Status::kOk;
}

// A touch of a block that is here: of a page that the program has discarded, or one that came before it was served.
void MoveMemory::wake(BlockIndex block) {
  if (AdoptedMemory* const adopted = adopter_of(block)) return adopted->wake(block);
  if (marks_[block.value()] == Mark::kAttached) return moves_.fill(address(block), block_bytes_);
  userfault_.wake(address(block), block_bytes_);
}

void MoveMemory::fail(BlockIndex block) {
  if (AdoptedMemory* const adopted = adopter_of(block); adopted != nullptr) return adopted->fail(block);
  // The program may have unmapped a part of it. What is mapped in a child, moves_ does not know.
  const bool poisoned = child_ ? userfault_.poison_all(address(block), block_bytes_) == Status::kOk
                               : moves_.poison_missing(address(block), block_bytes_);
  if (poisoned) {
    marks_[block.value()] = Mark::kPoisoned;
  } else {
    own::mprotect(address(block), block_bytes_, PROT_NONE);
    marks_[block.value()] = Mark::kBarred;
  }
  userfault_.wake(address(block), block_bytes_);
}

void MoveMemory::forget_failure(BlockIndex block) {
  if (AdoptedMemory* const adopted = adopter_of(block)) return adopted->forget_failure(block);
  clear_failure(block);
}

void MoveMemory::clear_failure(BlockIndex block) {
  Mark& mark = marks_[block.value()];
  if (mark == Mark::kAbsent || mark == Mark::kAttached) return;
  PageMoves::drop(address(block), block_bytes_);
  if (mark == Mark::kBarred) own::mprotect(address(block), block_bytes_, kReadWrite);
  mark = Mark::kAbsent;
}

std::size_t MoveMemory::next(std::span<BlockIndex> blocks) {
  for (;;) {
    AdoptedMemory* const adopted = child_ ? nullptr : adopted_.load(std::memory_order_acquire);
    std::array<pollfd, 4> polled{{{userfault_.fd(), POLLIN, 0},
                                  {interrupt_fd_.get(), POLLIN, 0},
                                  {adopted != nullptr ? adopted->fd() : -1, POLLIN, 0},
                                  {adopted != nullptr ? adopted->stash_fd() : -1, POLLIN, 0}}};
    if (::poll(polled.data(), polled.size(), -1) < 0) {
      if (errno != EINTR) ::usleep(kPollPauseUs);  // the kernel has no memory just now
      continue;
    }
    if ((polled[1].revents & POLLIN) != 0) {
      silence(interrupt_fd_.get());
      return 0;
    }
    std::size_t found = 0;
    uffd_msg message;
    while (found < blocks.size() && userfault_.read(message)) {
      if (message.event != UFFD_EVENT_PAGEFAULT) continue;
      const BlockIndex block = block_at(message.arg.pagefault.address);
      if (block.valid()) blocks[found++] = block;
    }
    if (adopted != nullptr) found += adopted->take_faults(blocks.subspan(found));
    if (found > 0) return found;
  }
}

// None: nobody's business but ours, and done.
BlockIndex MoveMemory::block_at(std::uint64_t touched) {
  if (child_ && !space_.holds(touched)) return adopted_.load()->block_at(touched);
  const std::uint64_t block = (touched - reinterpret_cast<std::uintptr_t>(space_.data())) / block_bytes_;
  if (block < marks_.size()) return BlockIndex(static_cast<std::uint32_t>(block));
  // Whoever populates all memory of the process waits for a page of a home, or of what alignment has added to the
  // space; take() makes room when a frame comes home.
  EBB_CHECK(home_.holds(touched) || space_.holds(touched));  // nothing else is watched by this descriptor
  auto* const page = reinterpret_cast<std::byte*>(touched / kPageBytes * kPageBytes);
  static_cast<void>(userfault_.zero_all(page, kPageBytes));
  userfault_.wake(page, kPageBytes);
  return BlockIndex::none();
}

void MoveMemory::interrupt() { ring(interrupt_fd_.get()); }

std::string MoveMemory::description() const {
  if (userfault_.rung() == Userfault::Rung::kFull) return "userfaultfd with UFFDIO_MOVE, full rung";
  return std::string("userfaultfd with UFFDIO_MOVE, user-mode rung: ") + calls_.text() +
         (calls_.active() ? "" : "; or sysctl vm.unprivileged_userfaultfd=1, or CAP_SYS_PTRACE");
}

Adoption* MoveMemory::adoption(std::string& reason) {
  if (adopted_owner_ == nullptr && AdoptedMemory::make(block_bytes_, userfault_, adopted_owner_) == Status::kOk) {
    adopted_.store(adopted_owner_.get(), std::memory_order_release);
    interrupt();  // next() waits for one descriptor more
  }
  if (adopted_owner_ == nullptr) reason = "no second userfaultfd can be had here, or no /proc/self/pagemap";
  return adopted_owner_.get();
}

void MoveMemory::before_fork(std::span<const BlockIndex> stay) {
  for (const BlockIndex block : stay) inherit(block, true);
  inherited_.assign(stay.begin(), stay.end());
  std::sort(inherited_.begin(), inherited_.end());
  if (adopted_owner_ != nullptr) adopted_owner_->before_fork();
}

void MoveMemory::after_fork() {
  if (adopted_owner_ != nullptr) adopted_owner_->after_fork();
  for (const BlockIndex block : inherited_) inherit(block, false);
  inherited_.clear();
}

void MoveMemory::inherit(BlockIndex block, bool inherited) {
  if (AdoptedMemory* const adopted = adopter_of(block)) return adopted->inherit(block, inherited);
  // Where it is refused the child finds nothing there, and its touch fails.
  own::madvise(address(block), block_bytes_, inherited ? MADV_DOFORK : MADV_DONTFORK);
}

// Calls `use` with every part of the space that a child has not inherited, until one returns false.
template <typename F>
bool MoveMemory::for_each_absent_span(F&& use) const {
  std::byte* begin = space_.data();
  for (const BlockIndex block : inherited_) {
    if (adopter_of(block) != nullptr) continue;
    if (begin < address(block) && !use(begin, static_cast<std::size_t>(address(block) - begin))) return false;
    begin = address(block) + block_bytes_;
  }
  std::byte* const end = space_.data() + space_.bytes();
  return begin == end || use(begin, static_cast<std::size_t>(end - begin));
}

// Until absent blocks are watched nothing of the space can be touched: where a step fails, a touch is SIGSEGV, never
// zeros.
Status MoveMemory::enter_child() {
  // The space of a parent is not inherited. That of a child is, with what it holds: a grandchild goes on from there.
  constexpr int kEmpty = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  if (!child_ && adopted_owner_ != nullptr) adopted_owner_->after_fork();
  const bool closed = for_each_absent_span([this](std::byte* begin, std::size_t bytes) {
    return child_ ? own::mprotect(begin, bytes, PROT_NONE) == 0
                  : own::mmap(begin, bytes, PROT_NONE, kEmpty, -1, 0) == begin &&
                        (space_.in_core_dumps() || own::madvise(begin, bytes, MADV_DONTDUMP) == 0);
  });
  child_ = true;
  home_.forget();
  scratch_.forget();
  // The parent's descriptors make room for the child's, which may have no more of them.
  userfault_.close();
  interrupt_fd_.reset();
  if (!closed) return Status::kNoMemory;
  if (const Status status = watch_child(); status != Status::kOk) return status;
  const bool open = for_each_absent_span(
      [](std::byte* begin, std::size_t bytes) { return own::mprotect(begin, bytes, kReadWrite) == 0; });
  return open ? Status::kOk : Status::kNoMemory;
}

void MoveMemory::close_child() {
  static_cast<void>(for_each_absent_span(
      [](std::byte* begin, std::size_t bytes) { return own::mprotect(begin, bytes, PROT_NONE) == 0; }));
}

Status MoveMemory::watch_child() {
  if (const Status status = Userfault::open(userfault_); status != Status::kOk) return status;
  interrupt_fd_ = open_bell();
  if (!interrupt_fd_.valid()) return Status::kNoMemory;
  if (adopted_owner_ != nullptr) {
    if (const Status status = adopted_owner_->enter_child(userfault_); status != Status::kOk) return status;
  }
  return userfault_.watch(space_.data(), space_.bytes()) == 0 ? Status::kOk : Status::kUnsupported;
}

void MoveMemory::place(BlockIndex block, std::span<const std::byte> content) {
  EBB_CHECK(child_);
  if (AdoptedMemory* const adopted = adopter_of(block)) {
    if (!adopted->place(userfault_, block, content)) adopted->fail(block);
    return;
  }
  const Status status = content.empty() ? userfault_.zero_all(address(block), block_bytes_)
                                        : userfault_.copy_all(address(block), content.data(), content.size());
  if (status != Status::kOk) fail(block);
}

}  // namespace ebb
