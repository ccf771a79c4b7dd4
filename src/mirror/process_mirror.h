// ProcessMirror: the Mirror of this process: directory, device memory, and the thread that serves the CPU's touches.
//
// One mutex guards directory, watched ranges and slots. The event thread takes it *before* it reads events, and applies
// them before it gives it back: a thread in munmap, mremap or fork goes on only when its event has been read, so by
// then the directory is right. That makes events as strong as the kernel's notifiers. The price is a rule for whoever
// holds the mutex: it never allocates (fork holds malloc's locks while it waits for its event), never touches memory
// that may be absent, and never makes a call that raises an event. Calls answer EAGAIN while an event is unread: then
// the mutex is given back and everything is asked anew.
//
// What userfaultfd cannot move - read-only and locked pages - stays where it is, and the device gets a copy, which the
// CPU's next write ends. A copy may be dropped at any time; nothing else may.
//
// Lock order: copy_mutex_, mutex_. The object lies in a mapping of its own (operator new), because the heap may be
// migrated.
#pragma once

#include <linux/userfaultfd.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <bitset>
#include <mutex>
#include <thread>

#include "base/ordered_mutex.h"
#include "drivers/linux/process/process_map.h"
#include "drivers/linux/userfault/gate.h"
#include "drivers/linux/userfault/patience.h"
#include "ebb/mirror.h"
#include "mirror/pages/device_memory.h"
#include "mirror/pages/directory.h"
#include "mirror/pages/watched_ranges.h"

namespace ebb {

class ProcessMirror final : public Mirror {
 public:
  static void* operator new(std::size_t bytes);
  static void operator delete(void* object, std::size_t bytes);

  explicit ProcessMirror(const MirrorOptions& options);
  ~ProcessMirror() override;

  MirrorResult read(std::size_t device, const void* from, std::span<std::byte> to) override;
  MirrorResult write(std::size_t device, void* to, std::span<const std::byte> from) override;
  MirrorResult migrate_to_device(std::size_t device, void* begin, std::size_t bytes) override;
  MirrorResult migrate_to_host(void* begin, std::size_t bytes) override;
  MirrorResult exclusive(std::size_t device, void* begin, std::size_t bytes) override;
  MirrorResult add(std::size_t device, std::uint64_t* address, std::uint64_t value, std::uint64_t& before) override;
  MirrorResult evict(std::size_t device) override;
  std::vector<PageView> snapshot(std::size_t device, const void* begin, std::size_t bytes) override;
  LaunchReport launch(std::size_t device, const Kernel& kernel, std::span<const Use> uses) override;
  void set_shortage(std::size_t device, Shortage shortage) override;
  MirrorStats stats() const override;
  std::string description() const override;
  bool user_mode_only() const override { return userfault_.rung() == Userfault::Rung::kUserModeOnly; }

  // Whether a device may use these bytes now.
  MirrorResult check_span(std::uintptr_t begin, std::size_t bytes, bool write) const;

  // Moves on with every change to a mapping that the mirror is told of, before who makes it goes on: what was read
  // when it was the same is still there.
  std::uint64_t sequence() const {
    const Lock lock(mutex_);
    return sequence_;
  }

  // Around fork(), by the forking thread, where fork raises no event: everything comes home before.
  void before_fork();
  void after_fork_parent();
  // In a child: whether its parent's mirror may not have let go of its memory yet.
  static bool may_be_inherited();

 private:
  using Lock = std::unique_lock<OrderedMutex<Rank::kMirror>>;
  // What came of one attempt under the lock.
  enum class Step { kDone, kAgain, kUnshare, kFailed };
  struct Request {
    std::size_t device;
    bool exclusive;
    bool copied = false;                // not by moving
    std::uintptr_t begin = 0, end = 0;  // all that is asked for
  };
  struct Copy {  // of one read or write
    std::size_t device;
    std::uintptr_t address;
    std::byte* own;
    std::size_t bytes;
    bool write;
  };
  struct Duplicates {  // about to be made: page + i goes to first_slot + i
    std::uint64_t page = 0;
    std::uint32_t first_slot = 0;
    std::uint32_t count = 0;
    std::bitset<kHugePages> read;  // what has been copied out of the process
  };
  struct Fault {
    std::uint64_t page = 0;
    bool write_protected = false;  // the page is there
  };
  static constexpr std::size_t kFaultsMax = 256;
  static constexpr std::size_t kChildrenMax = 16;

  // Between attempts of one call: others have the mutex meanwhile. Half a minute of pauses.
  static Patience new_patience() { return Patience(60'000, 500, 64); }
  void check_device(std::size_t device) const;
  bool is_own(std::uintptr_t begin, std::uintptr_t end) const;

  // process_mirror_access.cc
  MirrorResult copy(Copy request);
  Step copy_piece(const Copy& request, std::size_t& done, MirrorError& error);
  std::size_t device_run(const Copy& request, const Entry& first, MirrorError& error);
  Step copy_host(const Copy& request, std::size_t bytes, std::size_t& done, MirrorError& error);
  Step make_present(std::uint64_t page);
  void release_write(std::uint64_t page);

  // process_mirror_migrate.cc
  MirrorResult migrate(Request request, std::uintptr_t begin, std::size_t bytes);
  MirrorError judge(const Mapping& mapping) const;
  Step take_some(const Request& request, std::uint64_t& page, std::uint64_t end, MirrorResult& result);
  Step renew(const Request& request, const Entry& entry, MirrorResult& result);
  Step take(const Request& request, std::uint64_t page, std::uint32_t count, std::uint32_t& taken, MirrorError& error);
  MirrorError watch(const Request& request, std::uint64_t page, std::uint32_t count);
  MirrorError watch_range(std::uintptr_t begin, std::uintptr_t end);
  void enter(const Request& request, std::uint64_t page, std::uint32_t slot, std::uint32_t count, Place place);
  Step map_coherent(std::uint64_t page);
  // process_mirror_home.cc
  Step bring_home(std::uint64_t page);
  Step give_back(const Entry& first, std::uint32_t count);
  Step copy_back(const Entry& entry);
  Step withdraw(const Entry& entry);
  void drop(const Entry& entry);
  MirrorResult home_pages(std::uint64_t first, std::uint64_t end);
  bool home_all(std::size_t device);
  // process_mirror_special.cc
  MirrorError duplicate(const Request& request, std::uint64_t page, std::uint32_t count, std::uint32_t& taken);
  MirrorError prepare_copies(const Request& request, Duplicates& copies);
  void finish_copies(const Request& request, const Duplicates& copies, std::uint32_t& taken);
  Step end_copy(const Entry& entry);
  MirrorError take_file(const Request& request, const Mapping& mapping, std::uint64_t page, std::uint32_t count,
                        std::uint32_t& taken);

  // process_mirror_events.cc
  void serve();
  void read_messages();
  void apply(const uffd_msg& message);
  void serve_faults();
  Step serve_fault(const Fault& fault);
  void drop_range(std::uintptr_t begin, std::uintptr_t end);
  void rebase(std::uintptr_t from, std::uintptr_t to, std::size_t bytes);
  void serve_child(int fd);
  void fill_child(const Userfault& child, void* to, const void* from, std::size_t bytes);
  template <typename Visit>
  void visit_range(std::uintptr_t begin, std::uintptr_t end, Visit visit);

  const MirrorOptions options_;
  const pid_t process_;
  bool fork_events_ = false;
  ProcessMap map_;
  Userfault userfault_;
  FileDescriptor stop_fd_;                          // a bell
  PageArray<std::byte> bounce_;                     // one huge page
  PageArray<std::byte> copies_;                     // one huge page: content of what is being duplicated
  std::uintptr_t stack_begin_ = 0, stack_end_ = 0;  // of the event thread
  std::atomic<bool> started_{false};                // a fork before would find a thread half made
  std::atomic<bool> stopping_{false};

  OrderedMutex<Rank::kMirrorCopy> copy_mutex_;
  mutable OrderedMutex<Rank::kMirror> mutex_;
  std::array<DeviceMemory, kDevicesMax> devices_;
  Directory directory_;
  WatchedRanges watched_;
  Gate gate_;
  bool forking_ = false;
  std::uint64_t sequence_ = 0;
  MirrorStats stats_;
  std::array<Fault, kFaultsMax> faults_{};  // touches not yet served
  std::size_t fault_count_ = 0;
  std::array<Userfault, kChildrenMax> children_;  // of forked children that are to be filled
  std::size_t child_count_ = 0;

  std::thread event_thread_;
};

}  // namespace ebb
