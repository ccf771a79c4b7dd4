// ProcessMirror: the event thread. It never allocates, and waits for nothing but messages and the mutex; what cannot be
// done yet is kept for the next round.
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "mirror/process_mirror.h"

namespace ebb {
namespace {

constexpr int kRetryMs = 1;
constexpr int kChildTriesMax = 20'000;  // with pauses: a minute

}  // namespace

void ProcessMirror::serve() {
  pthread_attr_t attributes;
  void* stack = nullptr;
  std::size_t stack_bytes = 0;
  if (::pthread_getattr_np(::pthread_self(), &attributes) == 0) {
    ::pthread_attr_getstack(&attributes, &stack, &stack_bytes);
    ::pthread_attr_destroy(&attributes);
    const Lock lock(mutex_);
    stack_begin_ = reinterpret_cast<std::uintptr_t>(stack);
    stack_end_ = stack_begin_ + stack_bytes;
  }
  started_ = true;
  started_.notify_all();
  bool waiting = false;  // faults that could not be served yet
  while (!stopping_) {
    std::array<pollfd, 2> polled{{{userfault_.fd(), POLLIN, 0}, {stop_fd_.get(), POLLIN, 0}}};
    ::poll(polled.data(), polled.size(), waiting ? kRetryMs : -1);
    const Lock lock(mutex_);
    read_messages();
    serve_faults();
    waiting = fault_count_ > 0;
  }
}

// Events before faults: while one is unread, no fault can be served. The kernel hands out faults first.
void ProcessMirror::read_messages() {
  uffd_msg message;
  while (userfault_.read(message)) {
    if (message.event != UFFD_EVENT_PAGEFAULT) {
      apply(message);
      continue;
    }
    const std::uint64_t page = message.arg.pagefault.address / kPageBytes;
    ++stats_.cpu_faults;
    if (fault_count_ < kFaultsMax) {
      faults_[fault_count_++] = {page, (message.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP) != 0};
    } else {
      userfault_.wake(address_of(page), kPageBytes);  // it will fault again
    }
  }
}

void ProcessMirror::apply(const uffd_msg& message) {
  ++sequence_;
  switch (message.event) {
    case UFFD_EVENT_FORK:
      ++stats_.forks;
      serve_child(static_cast<int>(message.arg.fork.ufd));
      break;
    case UFFD_EVENT_REMAP:
      ++stats_.remaps;
      rebase(message.arg.remap.from, message.arg.remap.to, message.arg.remap.len);
      break;
    case UFFD_EVENT_UNMAP:
      ++stats_.unmaps;
      drop_range(message.arg.remove.start, message.arg.remove.end);
      watched_.remove(message.arg.remove.start, message.arg.remove.end);
      break;
    case UFFD_EVENT_REMOVE:
      ++stats_.removes;
      drop_range(message.arg.remove.start, message.arg.remove.end);
      break;
    default: break;
  }
}

void ProcessMirror::serve_faults() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < fault_count_; ++i) {
    if (serve_fault(faults_[i]) == Step::kAgain) faults_[kept++] = faults_[i];
  }
  fault_count_ = kept;
}

ProcessMirror::Step ProcessMirror::serve_fault(const Fault& fault) {
  const std::uint64_t page = fault.page;
  const Entry* const entry = directory_.find(page);
  if (entry != nullptr && entry->place == Place::kDevice) {
    const bool coherent = devices_[entry->device].kind() == DeviceKind::kCoherent && !entry->exclusive;
    return coherent ? map_coherent(page) : bring_home(page);
  }
  if (entry != nullptr && entry->place != Place::kMapped) {
    if (const Step step = end_copy(*entry); step != Step::kDone || fault.write_protected) return step;
  }
  // Nobody's: new memory, or what is left of a copy. Whatever else keeps it from being filled, the touch is repeated
  // and finds out.
  void* const at = address_of(page);
  const int error =
      fault.write_protected ? userfault_.protect(at, kPageBytes, false) : userfault_.zero(at, kPageBytes).error;
  if (error == EAGAIN) return Step::kAgain;
  if (error != 0) userfault_.wake(at, kPageBytes);
  return Step::kDone;
}

// Calls visit(entry) for every page of the range that a device has. The visit may erase it.
template <typename Visit>
void ProcessMirror::visit_range(std::uintptr_t begin, std::uintptr_t end, Visit visit) {
  const std::uint64_t first = begin / kPageBytes;
  const std::uint64_t past = (end + kPageBytes - 1) / kPageBytes;
  if (directory_.size() == 0) return;
  if (past - first <= kHugePages) {
    for (std::uint64_t page = first; page < past; ++page) {
      if (const Entry* const entry = directory_.find(page); entry != nullptr) visit(Entry(*entry));
    }
    return;
  }
  for (DeviceMemory& device : devices_) {
    for (std::uint32_t slot = 0; slot < device.slots(); ++slot) {
      const std::uint64_t page = device.page_of(slot);
      if (page < first || page >= past) continue;
      if (const Entry* const entry = directory_.find(page); entry != nullptr) visit(Entry(*entry));
    }
  }
}

void ProcessMirror::drop_range(std::uintptr_t begin, std::uintptr_t end) {
  visit_range(begin, end, [&](const Entry& entry) { drop(entry); });
}

void ProcessMirror::rebase(std::uintptr_t from, std::uintptr_t to, std::size_t bytes) {
  visit_range(from, from + bytes, [&](const Entry& entry) {
    Entry moved = entry;
    moved.page = entry.page - from / kPageBytes + to / kPageBytes;
    moved.huge = false;
    directory_.erase(entry.page);
    if (directory_.find(moved.page) != nullptr) drop(*directory_.find(moved.page));
    devices_[entry.device].set_page(entry.slot, moved.page);
    directory_.insert(moved);
  });
  watched_.add(to, to + bytes);
}

// Everything that only a device has goes to the child at once: it must see the moment of the fork,
// whatever the parent does next. After that the child's memory is ordinary and nobody's to serve.
void ProcessMirror::serve_child(int fd) {
  children_[child_count_++] = Userfault(fd);
  while (child_count_ > 0) {
    const Userfault child = std::move(children_[--child_count_]);
    for (std::size_t i = 0; i < options_.devices.size(); ++i) {
      const DeviceMemory& device = devices_[i];
      for (std::uint32_t slot = 0; slot < device.slots(); ++slot) {
        const std::uint64_t page = device.page_of(slot);
        const Entry* const entry = page == 0 ? nullptr : directory_.find(page);
        if (entry == nullptr || entry->slot != slot || entry->device != i) continue;
        if (entry->place == Place::kDevice) fill_child(child, address_of(page), device.address(slot), kPageBytes);
      }
    }
    // Explicitly: another child may have inherited the descriptor, and closing it would not do.
    for (std::size_t i = 0; i < watched_.size(); ++i) {
      const WatchedRanges::Range range = watched_[i];
      child.unwatch(reinterpret_cast<void*>(range.begin), range.end - range.begin);
    }
  }
  // The child shares what a coherent device has under the CPU's address: it is memory of the host from now on.
  for (std::size_t i = 0; i < options_.devices.size(); ++i) {
    for (std::uint32_t slot = 0; slot < devices_[i].slots(); ++slot) {
      const std::uint64_t page = devices_[i].page_of(slot);
      const Entry* const entry = page == 0 ? nullptr : directory_.find(page);
      if (entry != nullptr && entry->device == i && entry->place == Place::kMapped) drop(*entry);
    }
  }
}

// The child may be running, and change its mappings or fork in turn meanwhile: its events are read here.
void ProcessMirror::fill_child(const Userfault& child, void* to, const void* from, std::size_t bytes) {
  for (int tries = 0; tries < kChildTriesMax; ++tries) {
    const auto copied = child.copy(to, from, bytes);
    if (copied.error != EAGAIN) return;  // done, or it has a page there, or no mapping any more
    uffd_msg message;
    while (child.read(message)) {
      if (message.event != UFFD_EVENT_FORK) continue;
      EBB_CHECK_LT(child_count_, kChildrenMax);
      children_[child_count_++] = Userfault(static_cast<int>(message.arg.fork.ufd));
    }
    if (tries > 100) ::usleep(100);
  }
}

}  // namespace ebb
