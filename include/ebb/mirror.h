// Mirror: devices that work on the process's own memory. Any valid pointer - from malloc, mmap, the stack or a file
// mapping - is one for a device: no copies made by the user, protection kept, data moved near the device when asked and
// brought home the moment the CPU touches it. The semantics are those of Linux HMM (Documentation/mm/hmm.rst), in user
// space, on userfaultfd; docs/mirror.md has every known difference.
//
//   auto mirror = ebb::Mirror::open({.devices = {ebb::DeviceKind::kPrivate}});
//   mirror->migrate_to_device(0, data, bytes);              // whole pages; the CPU may touch them at any time
//   mirror->launch(0, [&](ebb::DeviceView& device) { device.store(&data[7], device.load(&data[8]) + 1); }, {});
//
// Threads: every function may be called from any thread. Addresses are of this process; sizes are bytes; a page has
// 4096. A forked child cannot use its parent's Mirror: it opens one of its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "ebb/status.h"
#include "ebb/units.h"
#include "ebb/use.h"

namespace ebb {

enum class DeviceKind : std::uint8_t {
  kPrivate,   // the CPU cannot map the device's memory: its touch brings the page home
  kCoherent,  // it can: its touch works where the page is
};

struct MirrorOptions {
  std::vector<DeviceKind> devices{DeviceKind::kPrivate};  // at most Mirror::kDevicesMax
  std::uint64_t device_bytes = 64 * kMiB;                 // of memory, each
  // Do without the privilege that makes touches by the kernel (read(2) into a migrated buffer) wait: they fail with
  // EFAULT. Without it this is chosen where the privilege is not to be had.
  bool user_mode_only = false;
  // How long a device waits for somebody else's fault handler.
  std::chrono::milliseconds fault_timeout{10'000};
  // Migrate also writable private mappings of files. The caller sees to it that nothing writes them meanwhile; they
  // lose their file, as pages that were written have.
  bool replace_file_mappings = false;
};

// What came of an access or a migration; the HMM errno of each is in parentheses.
enum class MirrorError : std::uint8_t {
  kNone,
  kFault,          // nothing that can be read is mapped there (EFAULT)
  kPermission,     // what is mapped there may be read but not written, nor had exclusively (EPERM)
  kNotMigratable,  // shared memory, a file, or a page that another device has (ENOENT)
  kBadRange,       // not whole pages, a hole, or memory without access in it (EINVAL)
  kBusy,           // pinned by the kernel, served by somebody else who does not answer, or about to fork (EBUSY)
  kNoMemory,       // the device's memory is full (ENOMEM)
};
const char* name(MirrorError error);

struct [[nodiscard]] MirrorResult {
  MirrorError error = MirrorError::kNone;
  std::uint64_t pages = 0;     // done; with an error, those before it or around it
  std::uintptr_t address = 0;  // of the first page with the error
  bool ok() const { return error == MirrorError::kNone; }
};

// What a device would find at a page, without touching it.
struct PageView {
  bool mapped = false;  // false: a hole, or no access
  bool read = false;    // valid now: present, or in this device's memory
  bool write = false;   // and the mapping can be written
  bool zero = false;    // the zero page
  bool huge = false;    // part of a huge page
  bool on_device = false;
  bool exclusive = false;
};

struct MirrorStats {
  std::uint64_t pages_to_device = 0, pages_to_host = 0;
  std::uint64_t cpu_faults = 0;  // touches of absent pages by the CPU
  std::uint64_t forks = 0, remaps = 0, unmaps = 0, removes = 0;
  std::uint64_t device_pages = 0;  // now, on all devices
};

// Memory as a kernel on the device sees it, valid during its launch: translated page by page, each translation asked
// for by a fault record, served, and the access replayed. Stores reach memory when the page's line is given up, at the
// latest at the end of the launch, byte by byte: neighbours that the CPU wrote stay. One thread.
class DeviceView {
 public:
  virtual ~DeviceView() = default;
  virtual void read(const void* from, std::span<std::byte> to) = 0;
  virtual void write(void* to, std::span<const std::byte> from) = 0;
  // Atomic with respect to the CPU: through exclusive access. `address` is aligned to 8.
  virtual std::uint64_t add(std::uint64_t* address, std::uint64_t value) = 0;

  template <typename T>
  T load(const T* address) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    read(address, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  template <typename T>
  void store(T* address, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    write(address, std::as_bytes(std::span(&value, 1)));
  }
};

struct LaunchReport {
  std::uint64_t faults = 0;  // translations that had to be asked for
};

class Mirror {
 public:
  static constexpr std::size_t kDevicesMax = 8;

  // Throws Error with the remedy: no userfaultfd, a kernel without UFFDIO_MOVE (before 6.8), nonsense options.
  static std::unique_ptr<Mirror> open(const MirrorOptions& options);
  // Brings everything home first. No launch may be running.
  virtual ~Mirror() = default;

  // The device reads or writes process memory. Checked as a whole first: after an error nothing was done, unless
  // mappings changed meanwhile.
  virtual MirrorResult read(std::size_t device, const void* from, std::span<std::byte> to) = 0;
  virtual MirrorResult write(std::size_t device, void* to, std::span<const std::byte> from) = 0;

  // Whole pages. Pages that cannot go are skipped and told; the others go.
  virtual MirrorResult migrate_to_device(std::size_t device, void* begin, std::size_t bytes) = 0;
  virtual MirrorResult migrate_to_host(void* begin, std::size_t bytes) = 0;
  // As migrate_to_device, but also the CPU's access to a coherent device's page is withdrawn, until it touches it.
  virtual MirrorResult exclusive(std::size_t device, void* begin, std::size_t bytes) = 0;
  // Adds to an aligned word, atomically with respect to the CPU; `before` is what was there.
  virtual MirrorResult add(std::size_t device, std::uint64_t* address, std::uint64_t value, std::uint64_t& before) = 0;
  // Everything that the device holds comes home.
  virtual MirrorResult evict(std::size_t device) = 0;

  virtual std::vector<PageView> snapshot(std::size_t device, const void* begin, std::size_t bytes) = 0;

  using Kernel = std::function<void(DeviceView&)>;
  // Runs `kernel` to its end. Throws Error(kInvalid) with address, access and mapping when it, or a use, touches what
  // it may not: that launch has failed, what it stored by then is undefined, and nothing else happened.
  // `uses` is checked before it starts.
  virtual LaunchReport launch(std::size_t device, const Kernel& kernel, std::span<const Use> uses) = 0;

  // For tests: the device finds no place for a huge page, or for none at all.
  enum class Shortage : std::uint8_t { kNone, kHuge, kAll };
  virtual void set_shortage(std::size_t device, Shortage shortage) = 0;

  virtual MirrorStats stats() const = 0;
  // What this machine allowed, in one line.
  virtual std::string description() const = 0;
  virtual bool user_mode_only() const = 0;
};

}  // namespace ebb
