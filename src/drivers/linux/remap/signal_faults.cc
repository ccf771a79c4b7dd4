// See signal_faults.h. The desks are static, so that the handler can look at them whatever has been destroyed.
#include "drivers/linux/remap/signal_faults.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <memory>

#include "base/check.h"
#include "base/ordered_mutex.h"
#include "drivers/linux/process/process_map.h"
#include "drivers/linux/process/signal_chain.h"
#include "drivers/linux/process/thread_stacks.h"
#include "drivers/linux/system/system_files.h"

namespace ebb {
namespace desk_of_signals {  // has a name because a class of the header is made of it

// A cell holds a block above and a state below: a slot is settled for the block it was posted for, or not at all.
enum class SlotState : std::uint64_t { kFree, kPosted, kTaken, kWoken, kHere, kFailed };
constexpr std::uint64_t cell_of(std::uint32_t block, SlotState state) {
  return std::uint64_t{block} << 32 | static_cast<std::uint64_t>(state);
}
constexpr std::uint32_t block_of(std::uint64_t cell) { return static_cast<std::uint32_t>(cell >> 32); }
constexpr SlotState state_of(std::uint64_t cell) { return static_cast<SlotState>(cell & 0xffffffff); }

struct Slot {
  std::atomic<std::uint64_t> cell{0};
  std::atomic<std::uint32_t> bell{0};  // the futex: rises when the cell is settled
};
static_assert(cell_of(0, SlotState::kFree) == 0, "a zeroed desk is a desk with all slots free");
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "the handler must not take locks");

}  // namespace desk_of_signals

using namespace desk_of_signals;

struct SignalFaults::Desk {
  std::atomic<bool> taken{false};
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::size_t> bytes{0};  // 0: the handler passes over this desk
  std::atomic<std::size_t> block_bytes{1};
  std::atomic<pid_t> process{0};  // whose range it is: a forked child has other things at the address
  std::atomic<int> event_fd{-1};
  std::atomic<bool> interrupted{false};
  std::array<Slot, kSlots> slots{};

  void clear() {
    for (Slot& slot : slots) slot.cell.store(cell_of(0, SlotState::kFree));
  }
  void settle(BlockIndex block, SlotState outcome);
  SlotState wait_for(std::uint32_t block);
};

namespace {

constinit std::array<SignalFaults::Desk, SignalFaults::kRangesMax> g_desks{};
void handle(int signal, siginfo_t* info, void* context);
constinit SignalChain g_chain(SIGSEGV, handle, [](const struct sigaction* action, struct sigaction* before) {
  return g_chain.replace(action, before);
});
// Of this process; never destroyed, and left behind where another takes its place, because a handler may look at it.
constinit std::atomic<const ProcessMap*> g_map{nullptr};
constinit std::atomic<pid_t> g_map_process{0};

void open_map() {
  auto map = std::make_unique<ProcessMap>();
  if (ProcessMap::open(*map) == Status::kOk) g_map.store(map.release());
  g_map_process.store(::getpid());
}

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  return ::syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

SignalFaults::Desk* desk_of(std::uintptr_t address) {
  for (SignalFaults::Desk& desk : g_desks) {
    const std::size_t bytes = desk.bytes.load(std::memory_order_acquire);
    const std::uintptr_t begin = desk.begin.load(std::memory_order_acquire);
    if (address - begin >= bytes || desk.process.load() != ::getpid()) continue;
    // The second look catches a desk that changes hands in between.
    if (desk.bytes.load(std::memory_order_acquire) == bytes) return &desk;
  }
  return nullptr;
}

// Whether the thread tried to execute what it touched: no block can help it.
bool jumped_to(std::uintptr_t address, const void* context) {
  [[maybe_unused]] const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<std::uintptr_t>(machine.gregs[REG_RIP]) == address;
#elif defined(__aarch64__)
  return machine.pc == address;
#else
  return address == 0;
#endif
}

// Whether a protection that the program has set forbids what the thread tried. A frame is mapped shared, and what a
// child has is readable: anything else is a block that has left again since it was said to be here, and the next touch
// asks for it.
bool forbidden(std::uintptr_t address, [[maybe_unused]] const void* context) {
  const ProcessMap* const map = g_map.load();
  Mapping mapping;
  if (map == nullptr || !map->find(address, mapping)) return false;
#if defined(__x86_64__)
  constexpr long long kWrite = 2;  // of the error code of a page fault
  const bool writes = (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & kWrite) != 0;
#else
  constexpr bool writes = false;
#endif
  return mapping.readable ? writes && !mapping.writable : mapping.shared;
}

// SIGBUS as the kernel raises it for a page it has lost: to the program's handler, and deadly when that is blocked.
void raise_bus_error(void* address) {
  sigset_t only;
  sigset_t before;
  ::sigemptyset(&only);
  ::sigaddset(&only, SIGBUS);
  const struct sigaction action = current_action(SIGBUS);
  ::pthread_sigmask(SIG_BLOCK, nullptr, &before);
  if (!has_handler(action) || ::sigismember(&before, SIGBUS) == 1) restore_default(SIGBUS);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  siginfo_t info{};
  info.si_signo = SIGBUS;
  info.si_code = BUS_ADRERR;
  info.si_addr = address;
  const long thread = ::syscall(SYS_gettid);
  if (::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), thread, SIGBUS, &info) != 0) ::raise(SIGBUS);
}

void handle(int /*signal*/, siginfo_t* info, void* context) {
  const int error = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  SignalFaults::Desk* const desk =
      info->si_code == SEGV_ACCERR && !jumped_to(address, context) ? desk_of(address) : nullptr;
  if (desk == nullptr) {
    g_chain.pass_on(info, context);
  } else {
    EBB_DCHECK(LockOrder::none_held());
    const std::uintptr_t offset = address - desk->begin.load(std::memory_order_relaxed);
    const auto block = static_cast<std::uint32_t>(offset / desk->block_bytes.load(std::memory_order_relaxed));
    const SlotState outcome = desk->wait_for(block);
    if (outcome == SlotState::kFailed) raise_bus_error(info->si_addr);
    if (outcome == SlotState::kHere && forbidden(address, context)) g_chain.pass_on(info, context);
  }
  errno = error;
}

}  // namespace

SlotState SignalFaults::Desk::wait_for(std::uint32_t block) {
  Slot* slot = nullptr;
  for (std::size_t i = 0; slot == nullptr; i = (i + 1) % kSlots) {
    std::uint64_t free = 0;
    if (slots[i].cell.compare_exchange_strong(free, cell_of(block, SlotState::kPosted))) slot = &slots[i];
    if (slot == nullptr && i + 1 == kSlots) ::sched_yield();
  }
  ring(event_fd.load());
  for (;;) {
    const std::uint32_t heard = slot->bell.load();
    const SlotState state = state_of(slot->cell.load());
    if (state != SlotState::kPosted && state != SlotState::kTaken) {
      slot->cell.store(cell_of(0, SlotState::kFree));
      return state;
    }
    futex(slot->bell, FUTEX_WAIT, heard);
  }
}

void SignalFaults::Desk::settle(BlockIndex block, SlotState outcome) {
  for (Slot& slot : slots) {
    std::uint64_t cell = slot.cell.load();
    const SlotState state = state_of(cell);
    if (block_of(cell) != block.value() || (state != SlotState::kPosted && state != SlotState::kTaken)) continue;
    bool settled = slot.cell.compare_exchange_strong(cell, cell_of(block.value(), outcome));
    // next() may just have taken what was posted; anything else means that somebody has settled it already.
    if (!settled && cell == cell_of(block.value(), SlotState::kTaken)) {
      settled = slot.cell.compare_exchange_strong(cell, cell_of(block.value(), outcome));
    }
    if (!settled) continue;
    slot.bell.fetch_add(1);
    futex(slot.bell, FUTEX_WAKE, 1);
  }
}

SignalFaults::~SignalFaults() {
  if (desk_ == nullptr) return;
  desk_->bytes.store(0);
  ::close(desk_->event_fd.exchange(-1));
  desk_->taken.store(false);
}

Status SignalFaults::watch(const std::byte* begin, std::size_t bytes, std::size_t block_bytes) {
  EBB_CHECK(desk_ == nullptr);
  const int event_fd = ::eventfd(0, EFD_CLOEXEC);
  if (event_fd < 0) return Status::kUnsupported;
  for (Desk& desk : g_desks) {
    if (desk.taken.exchange(true)) continue;
    g_chain.install();
    give_threads_signal_stacks();
    desk_ = &desk;
    // In a child, threads that exist only in the parent may seem to wait here.
    if (desk.process.exchange(::getpid()) != ::getpid()) desk.clear();
    if (g_map.load() == nullptr || g_map_process.load() != ::getpid()) {
      g_map.store(nullptr);  // what there is says how another process is mapped
      open_map();
    }
    desk.event_fd.store(event_fd);
    desk.interrupted.store(false);
    desk.block_bytes.store(block_bytes);
    desk.begin.store(reinterpret_cast<std::uintptr_t>(begin));
    desk.bytes.store(bytes);
    return Status::kOk;
  }
  ::close(event_fd);
  return Status::kUnsupported;
}

std::size_t SignalFaults::next(std::span<BlockIndex> blocks) {
  for (;;) {
    if (desk_->interrupted.exchange(false)) return 0;
    std::size_t found = 0;
    for (Slot& slot : desk_->slots) {
      if (found == blocks.size()) break;
      std::uint64_t cell = slot.cell.load();
      if (state_of(cell) != SlotState::kPosted) continue;
      const std::uint32_t block = block_of(cell);
      if (!slot.cell.compare_exchange_strong(cell, cell_of(block, SlotState::kTaken))) continue;
      blocks[found++] = BlockIndex(block);
    }
    if (found > 0) return found;
    std::uint64_t count = 0;
    static_cast<void>(::read(desk_->event_fd.load(), &count, sizeof count));  // interrupted: look again
  }
}

void SignalFaults::interrupt() {
  desk_->interrupted.store(true);
  ring(desk_->event_fd.load());
}

void SignalFaults::wake(BlockIndex block) { desk_->settle(block, SlotState::kWoken); }

void SignalFaults::here(BlockIndex block) { desk_->settle(block, SlotState::kHere); }

void SignalFaults::fail(BlockIndex block) { desk_->settle(block, SlotState::kFailed); }

void SignalFaults::abandon() { desk_->bytes.store(0); }

Status SignalFaults::enter_child() {
  // The parent's descriptors make room for the child's, which may have no more of them.
  ::close(desk_->event_fd.exchange(-1));
  delete g_map.exchange(nullptr);  // what it says is of the parent; this thread is the only one
  const int event_fd = ::eventfd(0, EFD_CLOEXEC);
  if (event_fd < 0) return Status::kUnsupported;
  desk_->event_fd.store(event_fd);
  open_map();
  desk_->interrupted.store(false);
  desk_->process.store(::getpid());
  desk_->clear();
  return Status::kOk;
}

}  // namespace ebb
