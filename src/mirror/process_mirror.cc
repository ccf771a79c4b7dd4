// ProcessMirror: opening, closing, fork, and what is told about it.
#include "mirror/process_mirror.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/check.h"
#include "base/clock.h"
#include "base/internal_thread.h"
#include "drivers/linux/process/trapped_copy.h"

namespace ebb {
namespace {

constexpr std::size_t kMirrorsMax = 64;
constexpr std::uint64_t kDeviceBytesMax = std::uint64_t{1} << 40;

// How long what was inherited may still be watched by the parent's mirror, which is filling it.
constexpr std::uint64_t kInheritedMaxNs = 10'000'000'000;

OrderedMutex<Rank::kMirrors> live_mutex;  // held from before a fork until after it
std::atomic<std::uint64_t> inherited_until_ns{0};
std::array<ProcessMirror*, kMirrorsMax> live;

void before_any_fork() {
  live_mutex.lock();
  for (ProcessMirror* mirror : live) {
    if (mirror != nullptr) mirror->before_fork();
  }
}

void after_any_fork_parent() {
  for (ProcessMirror* mirror : live) {
    if (mirror != nullptr) mirror->after_fork_parent();
  }
  live_mutex.unlock();
}

void after_any_fork_child() {
  for (ProcessMirror*& mirror : live) {
    if (mirror != nullptr) inherited_until_ns = monotonic_ns() + kInheritedMaxNs;
    mirror = nullptr;
  }
  live_mutex.unlock();
}

void enlist(ProcessMirror* mirror) {
  static const int registered = ::pthread_atfork(before_any_fork, after_any_fork_parent, after_any_fork_child);
  EBB_CHECK_EQ(registered, 0);
  const std::lock_guard lock(live_mutex);
  const auto place = std::find(live.begin(), live.end(), nullptr);
  if (place == live.end()) {
    throw Error(Status::kInvalid, "more than " + std::to_string(kMirrorsMax) + " mirrors are open: close one");
  }
  *place = mirror;
}

void check_options(const MirrorOptions& options) {
  if (options.devices.empty() || options.devices.size() > Mirror::kDevicesMax) {
    throw Error(Status::kInvalid, "a mirror has 1 to " + std::to_string(Mirror::kDevicesMax) + " devices, not " +
                                      std::to_string(options.devices.size()));
  }
  if (options.device_bytes < kPageBytes || options.device_bytes > kDeviceBytesMax) {
    throw Error(Status::kInvalid, "device memory of " + format_size(options.device_bytes) +
                                      " is not between one page (4 KiB) and " + format_size(kDeviceBytesMax));
  }
  if (::sysconf(_SC_PAGESIZE) != static_cast<long>(kPageBytes)) {
    throw Error(Status::kUnsupported, "the mirror works with pages of 4 KiB; this kernel's are larger");
  }
}

void require(Status status, const char* what) {
  if (status != Status::kOk) throw Error(status, std::string("the mirror cannot be opened: ") + what);
}

}  // namespace

const char* name(MirrorError error) {
  constexpr std::array kNames{"none", "fault", "permission", "not migratable", "bad range", "busy", "no memory"};
  return kNames[static_cast<std::size_t>(error)];
}

void* ProcessMirror::operator new(std::size_t bytes) {
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  return mapped;
}

void ProcessMirror::operator delete(void* object, std::size_t bytes) { ::munmap(object, bytes); }

std::unique_ptr<Mirror> Mirror::open(const MirrorOptions& options) { return std::make_unique<ProcessMirror>(options); }

ProcessMirror::ProcessMirror(const MirrorOptions& options) : options_(options), process_(::getpid()) {
  check_options(options);
  fork_events_ = !options.user_mode_only;
  int error = Userfault::open({options.user_mode_only, true, fork_events_}, userfault_);
  if (error != 0 && fork_events_) {
    fork_events_ = false;
    error = Userfault::open({false, true, false}, userfault_);
  }
  if (error != 0) error = Userfault::open({true, true, false}, userfault_);
  if (error != 0) {
    throw Error(Status::kUnsupported,
                std::string("the mirror needs userfaultfd, which is denied to this process (") + std::strerror(error) +
                    "): sysctl vm.unprivileged_userfaultfd=1, CAP_SYS_PTRACE, or in a container a seccomp profile "
                    "that allows userfaultfd");
  }
  if (!userfault_.can_move()) throw Error(Status::kUnsupported, "the mirror needs UFFDIO_MOVE, of Linux 6.8 or newer");
  require(ProcessMap::open(map_), "/proc/self/maps and /proc/self/pagemap cannot be read: mount /proc");
  for (std::size_t i = 0; i < options.devices.size(); ++i) {
    require(DeviceMemory::make(options.devices[i], options.device_bytes, user_mode_only(), devices_[i]),
            "no addresses for the device's memory: use less device_bytes, or lift ulimit -v");
  }
  require(Gate::make(userfault_, gate_), "no addresses for its gate: lift ulimit -v");
  const std::uint64_t slots = devices_[0].slots();
  require(Directory::make(slots * options.devices.size(), directory_), "no memory for its directory");
  require(WatchedRanges::make(watched_), "no memory for its ranges");
  require(PageArray<std::byte>::make(kHugePages * kPageBytes, bounce_), "no memory");
  require(PageArray<std::byte>::make(kHugePages * kPageBytes, copies_), "no memory");
  stop_fd_ = open_bell();
  if (!stop_fd_.valid()) throw Error(Status::kNoMemory, "the mirror cannot be opened: no event descriptor is left");
  make_trap();
  require(start_internal_thread(
              "ebb-mirror", [this] { serve(); }, event_thread_),
          "no thread for it: lift ulimit -u");
  started_.wait(false);
  try {
    enlist(this);
  } catch (...) {
    stopping_ = true;
    ring(stop_fd_.get());
    event_thread_.join();
    throw;
  }
}

ProcessMirror::~ProcessMirror() {
  if (::getpid() != process_) {
    // A child inherits neither the thread nor the devices' memory.
    event_thread_.detach();
    for (DeviceMemory& device : devices_) device.forget();
    gate_.forget();
    return;
  }
  {
    const std::lock_guard lock(live_mutex);
    std::replace(live.begin(), live.end(), this, static_cast<ProcessMirror*>(nullptr));
  }
  for (std::size_t i = 0; i < options_.devices.size(); ++i) home_all(i);
  // A child may have inherited the descriptor: closing it would not end the watch.
  for (;;) {
    WatchedRanges::Range range;
    {
      const Lock lock(mutex_);
      if (watched_.size() == 0) break;
      range = watched_[watched_.size() - 1];
      watched_.remove(range.begin, range.end);
    }
    // Piece by piece where the range is no longer one: a part may be unmapped, or somebody else's by now.
    for (std::uintptr_t at = range.begin; at < range.end;) {
      Mapping mapping;
      if (!map_.find(at, mapping)) {
        at += kPageBytes;
        continue;
      }
      const std::uintptr_t end = std::min<std::uintptr_t>(mapping.end, range.end);
      userfault_.unwatch(reinterpret_cast<void*>(at), end - at);
      at = end;
    }
  }
  stopping_ = true;
  ring(stop_fd_.get());
  event_thread_.join();
}

// Children are given what they must have by the event thread; without events there must be nothing to give.
void ProcessMirror::before_fork() {
  if (fork_events_) return;
  {
    const Lock lock(mutex_);
    forking_ = true;
  }
  for (std::size_t i = 0; i < options_.devices.size(); ++i) home_all(i);
}

void ProcessMirror::after_fork_parent() {
  if (fork_events_) return;
  const Lock lock(mutex_);
  forking_ = false;
}

bool ProcessMirror::may_be_inherited() { return monotonic_ns() < inherited_until_ns; }

void ProcessMirror::check_device(std::size_t device) const {
  if (device < options_.devices.size()) return;
  throw Error(Status::kInvalid, "device " + std::to_string(device) + " is not one of this mirror's " +
                                    std::to_string(options_.devices.size()));
}

bool ProcessMirror::is_own(std::uintptr_t begin, std::uintptr_t end) const {
  const auto overlaps = [&](std::uintptr_t first, std::uintptr_t past) { return begin < past && first < end; };
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (overlaps(self, self + sizeof *this) || overlaps(stack_begin_, stack_end_)) return true;
  if (gate_.overlaps(begin, end)) return true;
  if (overlaps(here, here + 1)) return true;
  if (directory_.overlaps(begin, end) || bounce_.overlaps(begin, end) || copies_.overlaps(begin, end)) return true;
  return std::any_of(devices_.begin(), devices_.begin() + static_cast<std::ptrdiff_t>(options_.devices.size()),
                     [&](const DeviceMemory& device) { return device.overlaps(begin, end); });
}

void ProcessMirror::set_shortage(std::size_t device, Shortage shortage) {
  check_device(device);
  const Lock lock(mutex_);
  devices_[device].set_shortage(shortage);
}

MirrorStats ProcessMirror::stats() const {
  const Lock lock(mutex_);
  MirrorStats stats = stats_;
  for (const DeviceMemory& device : devices_) stats.device_pages += device.used();
  return stats;
}

std::string ProcessMirror::description() const {
  std::string text = "userfaultfd with UFFDIO_MOVE, ";
  text += user_mode_only() ? "user-mode rung: a system call on migrated memory fails with EFAULT" : "full rung";
  return text + (fork_events_ ? "; children are filled at fork" : "; everything comes home before fork");
}

}  // namespace ebb
