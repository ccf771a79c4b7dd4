// MemoryModel: what the memory model of C++ lets each thread see. Every atomic object has the list of all its values,
// in the order in which they were written; a load may return any that nothing has hidden from its thread. What is
// hidden is kept as views (after Kang et al., POPL 2017, without promises): of each object the oldest value that may be
// seen. A view goes with a released value and is joined by who acquires it, with the clocks by which plain accesses are
// ordered.
//
// Not covered: values that are read before they are written (load buffering), and writes to one object that take
// another order than they were executed in (2+2W); relacy and loom leave out the same.
//
// Owned by the Explorer, used by one thread at a time. Invariant: memory itself has the newest value of each object.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace ebb::interleaving {

inline constexpr std::size_t kThreadsMax = 8;  // the first is who makes the scenario and looks at its end
inline constexpr std::size_t kObjectsMax = 64;

struct View {
  std::array<std::uint32_t, kThreadsMax> clock{};
  std::array<std::uint16_t, kObjectsMax> oldest{};

  void join(const View& other);
  void join_values(const View& other);
};

class MemoryModel {
 public:
  enum class Access : std::uint8_t { kRead, kWrite, kAtomicRead, kAtomicWrite };

  void clear();

  // How many values an object has had, from its first, and the first of them that this thread may read.
  std::uint32_t values(const void* object, std::size_t bytes) {
    return static_cast<std::uint32_t>(find(object, bytes).values.size());
  }
  std::uint32_t oldest_visible(std::size_t thread, const void* object, std::size_t bytes, std::memory_order order);
  std::uint64_t value(const void* object, std::size_t bytes, std::uint32_t index) {
    return find(object, bytes).values[index].value;
  }

  // What threads do. An update reads the newest value. Returned: whether that value was news to the thread.
  bool load(std::size_t thread, const void* object, std::size_t bytes, std::uint32_t index, std::memory_order order);
  void store(std::size_t thread, void* object, std::size_t bytes, std::uint64_t value, std::memory_order order);
  void update(std::size_t thread, void* object, std::size_t bytes, std::uint64_t value, std::memory_order order);
  void fence(std::size_t thread, std::memory_order order);
  // Of a mutex.
  void acquire(std::size_t thread, const void* mutex) { threads_[thread].now.join(mutexes_[mutex]); }
  void release(std::size_t thread, const void* mutex);
  // What its maker has done happened before a thread; and all that it has done before what who joins it does.
  void begin(std::size_t thread, std::size_t maker);
  void end(std::size_t thread, std::size_t joiner) { threads_[joiner].now.join(threads_[thread].now); }

  // False: nothing orders it after what another thread did to these bytes, or that after it: a data race.
  bool access(std::size_t thread, const void* address, std::size_t bytes, Access kind);
  // They have been freed, or made anew.
  void forget(const void* address, std::size_t bytes);

 private:
  struct Value {
    std::uint64_t value = 0;
    View view;
  };
  struct Object {
    std::size_t id = 0;
    std::vector<Value> values;
  };
  struct Thread {
    View now;       // what has happened before
    View acquired;  // what has been read, for an acquire fence to come
    View released;  // as the last release fence found it
  };
  static constexpr std::size_t kGranuleBytes = 8;
  using Done = std::array<std::uint32_t, kGranuleBytes>;  // when, by the clock of who did it; 0: never
  struct Granule {
    std::array<std::array<Done, 4>, kThreadsMax> done{};  // by thread and Access
  };

  void renew(const void* address, std::size_t bytes);
  Object& find(const void* object, std::size_t bytes);
  void add(std::size_t thread, Object& object, void* address, std::size_t bytes, std::uint64_t value, View view);

  std::unordered_map<const void*, Object> objects_;
  std::unordered_map<const void*, View> mutexes_;
  std::unordered_map<std::uintptr_t, Granule> granules_;
  std::array<Thread, kThreadsMax> threads_{};
  View sequential_;  // of what is sequentially consistent: its values only
  std::size_t objects_made_ = 0;
};

}  // namespace ebb::interleaving
