// Runtime: one address space over a memory budget and flash. The façade of Ebbtide.
//
//   auto runtime = ebb::Runtime::open({.memory = 1.5_GiB, .flash = "/nvme"});
//   float* x = static_cast<float*>(runtime->allocate(8_GiB));   // larger than the budget: fine
//   ...                                                         // use x like any pointer
//   runtime->deallocate(x);
//
// The address of an allocation never changes; the memory under it comes and goes. Touching an absent block waits for
// it, from any thread. Announcing what is about to be used (`Launch`) makes that wait short; it is never required.
//
// Threads: every function may be called from any thread. Ownership: the last owner of the Runtime must have freed, or
// stopped using, everything allocated from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/options.h"
#include "ebb/stats.h"
#include "ebb/status.h"
#include "ebb/units.h"
#include "ebb/waits/waits.h"

namespace ebb {

// Bytes that a launch is about to touch. Only a hint: what it really does is found out.
struct Access {
  const void* data = nullptr;
  std::size_t bytes = 0;
  const void* allocation = nullptr;  // what allocate() or map_file() returned, if the policy is to learn from it
  // What is used together has one number, and what is used later a higher one: how a launch that is larger than memory
  // goes through it. In the order of the accesses.
  std::uint32_t group = 0;
  bool written = false;  // for recordings: nothing else trusts it
  // The launch writes all of it before it reads any: what it holds until then need not be fetched, and is undefined
  // from expect() or announce() on.
  bool overwritten = false;
};

// The `op` to announce for an operator of this name: the same in every process, as a guide needs it.
inline std::uint64_t op_of(std::string_view name) { return std::hash<std::string_view>{}(name); }

class Stream;

class Runtime : public std::enable_shared_from_this<Runtime> {
 public:
  // Throws Error with the remedy: nonsense options, no usable flash, no memory.
  static std::shared_ptr<Runtime> open(const Options& options);
  virtual ~Runtime() = default;

  // Uninitialised memory, aligned to 64 bytes. Throws Error(kNoMemory) naming budget, use and remedy when neither
  // memory nor flash can hold it. `bytes` below Options::managed_bytes_min come from ordinary memory.
  virtual void* allocate(std::size_t bytes) = 0;
  // Null is allowed; any other pointer must come from allocate().
  virtual void deallocate(void* data) noexcept = 0;
  // Takes memory that exists already under the budget, in place: its address stays, its content is not copied, and it
  // leaves and comes back like what allocate() gives. Only whole blocks (Options::block_bytes, aligned) inside `memory`
  // are adopted; they are returned, and the ends stay as they are. It takes no memory: what does not fit is on flash by
  // the time that it returns. The memory must be private, anonymous, readable and writable (malloc, new, a NumPy
  // array); throws Error otherwise, or where neither memory nor flash has a place for it, and everything is as before.
  //
  // The owner may unmap or discard it at any time, but must not free() it before release() or discard(), as malloc
  // would give out memory that still counts here. It must outlive the runtime, or be released.
  virtual std::span<std::byte> adopt(std::span<std::byte> memory) = 0;
  // Brings home all that was adopted inside `memory`, which is plain memory again; returns how many bytes that is, 0 if
  // nothing was. Throws Error where the machine has not memory enough for it (then nothing has changed), or where flash
  // has lost some of it.
  virtual std::size_t release(std::span<std::byte> memory) = 0;
  // The same for memory whose content nobody wants any more, as before it is freed: nothing is brought home.
  virtual std::size_t discard(std::span<std::byte> memory) = 0;
  // Maps a file, or `bytes` of it from `offset` on (a multiple of 4096; 0 bytes: all from there), which are aligned to
  // blocks. It is read as it is touched, or announced, straight from the disk where its file system can (O_DIRECT);
  // what is in memory counts in the budget, and leaves without a write. What the program writes to it is its own, and
  // never written to the file. Should the file be written to while it is mapped, what is read again is as it is then;
  // should it shrink, a touch of what is missing fails (SIGBUS, with a message). Throws Error: no regular file, open
  // for writing, no room.
  virtual std::span<std::byte> map_file(const std::string& path, std::uint64_t /*offset*/ = 0,
                                        std::uint64_t /*bytes*/ = 0) {
    throw Error(Status::kUnsupported, "cannot map '" + path + "': a runtime with a GPU maps no files");
  }
  // All of a mapping, or blocks of it.
  virtual void unmap_file(std::span<std::byte> /*memory*/) {}
  // Whether `data` lies in the space that this runtime manages, or in memory given to adopt().
  virtual bool manages(const void* data) const noexcept = 0;
  // The unit of residency: a power of two, and managed memory is divided at its multiples.
  virtual std::size_t block_bytes() const noexcept = 0;

  // Announces a launch: waits until as much of `accesses` as fits is in memory, and keeps it there until retire().
  // `op` identifies the operation across iterations (op_of() its name, say). Nestable; returns a ticket.
  virtual std::uint64_t announce(std::uint64_t op, std::span<const Access> accesses) noexcept = 0;
  virtual void retire(std::uint64_t ticket) noexcept = 0;
  // Gives the calling thread what it needs to touch managed memory whatever its code does with the stack pointer: on
  // machines without userfaultfd a stack for signals, because compiled kernels may keep other memory where signals
  // would be delivered. The runtime does this for threads that are there when it opens, or that libraries make which
  // are loaded by then, and announce() for who calls it. What is left, threads of libraries loaded later, call it once.
  virtual void prepare_thread() noexcept {}
  // False: a thread that was there could not be prepared, because it computed just then or takes no signals.
  virtual bool threads_prepared() const noexcept { return true; }
  // Keeps what is announced in memory, whoever wants room, until let_go(): for a device that cannot wait for what is
  // absent. (What announce() keeps there gives way to touches of absent memory when nothing else does.) False, and
  // nothing happens: not all of it is in memory, or more than half of the budget would be held by all together.
  virtual bool hold(std::span<const Access> /*accesses*/) noexcept { return false; }
  virtual void let_go(std::span<const Access> /*accesses*/) noexcept {}
  // Tells of a launch that will be announced, after those expected before it: what it needs is fetched ahead, as far as
  // it displaces nothing that is needed earlier. Returns a number for begin(), to be called between announce() and the
  // run of the launch, and for forget(), when it is over or will not be announced after all.
  virtual std::uint64_t expect(std::span<const Access> /*accesses*/) noexcept { return 0; }
  virtual void begin(std::uint64_t /*expected*/) noexcept {}
  virtual void forget(std::uint64_t /*expected*/) noexcept {}
  // Whether flash has lost some of these bytes for good: who touches them gets SIGBUS.
  virtual bool lost(std::span<const Access> /*accesses*/) const noexcept { return false; }
  // A new stream of launches (ebb/stream.h).
  Stream stream();
  // The name of an `op`, for recordings and accounts of waits.
  virtual void name_op(std::uint64_t /*op*/, const std::string& /*name*/) {}
  virtual bool recording() const noexcept { return false; }
  // Marks the end of an iteration (an optimizer step, a request served).
  virtual void step() noexcept = 0;

  // Changes the budget while the program runs. More is taken as it is needed. Less: blocks leave in steps, and their
  // memory is back with the system when this returns; what the program touches meanwhile is served. Throws Error with
  // the remedy where it cannot be: more than Options::memory_max, or less than what the fewest frames take, or than
  // what is alive has places for without it; or where too much is in use to leave within 10 s. Then the budget is as
  // far down as it came (stats().budget_bytes).
  virtual void set_budget(std::uint64_t /*bytes*/) {
    throw Error(Status::kUnsupported, "the memory of a GPU is a fixed budget");
  }

  // In a child forked from a process that belonged to a job and had taken no memory of it yet: nothing here is its
  // parent's, and it may open a runtime of its own in the same job. Any other child uses its parent's memory.
  virtual bool forked_empty() const noexcept { return false; }

  virtual Stats stats() const = 0;
  // Who waited for memory, and why; of the tensors of a GPU nothing is told. The observer is asked about launches that
  // wait; describe() says what allocations are, in place of what it said before.
  virtual WaitReport waits() const { return {}; }
  virtual void observe_waits(WaitObserver /*observer*/) {}
  virtual void describe(std::span<const MemoryNote> /*notes*/) {}
  // Seconds between calls of step(), oldest first; the newest 65,536 are kept.
  virtual std::vector<double> step_seconds() const = 0;
  virtual std::string policy() const = 0;
  // What this machine allowed: memory driver, privilege rung, flash driver, in one line.
  virtual std::string description() const = 0;
};

}  // namespace ebb
