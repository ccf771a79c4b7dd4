// Execution: one run of a scenario, step by step. The threads hand on the turn among themselves: whoever stops chooses
// who goes on. All of it is touched by who has the turn only, and who has it is `current_`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "interleaving/explorer/choices.h"
#include "interleaving/explorer/explorer.h"
#include "interleaving/explorer/memory_model.h"

namespace ebb::interleaving {

struct Operation {
  Kind kind = Kind::kLoad;
  std::memory_order order = std::memory_order_relaxed;
  const void* object = nullptr;
  std::size_t bytes = 0;
  const void* site = nullptr;

  bool sequential() const { return kind <= Kind::kFence && order == std::memory_order_seq_cst; }
};

class Execution {
 public:
  Execution(const Options& options, Choices& choices, Findings& findings)
      : options_(options), choices_(choices), findings_(findings) {}
  // Runs it. False: some of its threads will never end, so it must be kept.
  bool run(const Scenario& scenario);

  // Of the calling thread, which has the turn: execution_steps.cc.
  std::uint64_t load(Operation operation);
  void store(Operation operation, std::uint64_t value);
  Updated update(Operation operation, Change change, std::uint64_t operand, std::uint64_t expected,
                 std::memory_order failed);
  void fence(Operation operation);
  void access(const void* address, std::size_t bytes, bool write);
  void forget(const void* address, std::size_t bytes) { model_.forget(address, bytes); }
  // execution_waits.cc
  void lock(const void* mutex, const void* site);
  bool try_lock(const void* mutex, const void* site);
  void unlock(const void* mutex, const void* site);
  bool wait(const void* condition, const void* mutex, std::uint64_t until_ns, const void* site);
  void notify(const void* condition, bool all, const void* site);
  std::uint64_t spawn(void* (*body)(void*), void* argument);
  void join(std::uint64_t handle, const void* site);
  void yield(const void* site);
  std::uint64_t now_ns() { return now_ns_ += kStepNs; }

  void fail(const std::string& what);
  void cut() { cut_ = true, free_ = true; }
  [[noreturn]] void stop_for_ever();

 private:
  static constexpr std::uint32_t kAll = ~std::uint32_t{0};
  static constexpr std::uint64_t kStepNs = 1000;
  enum class State : std::uint8_t { kNew, kReady, kDone };
  struct Visit {  // of a load's place in the code
    const void* site = nullptr;
    const void* object = nullptr;
    std::uint64_t progress = 0;
    std::uint32_t times = 0;
  };
  struct Thread {
    State state = State::kNew;
    Operation pending;
    // What has been tried in another order already: of a load, the values before this one; of all else, it or not.
    std::uint32_t asleep = 0;
    std::uint64_t progress = 0;
    std::vector<Visit> visits;
    bool spins = false;
    std::uint64_t spins_since = 0;  // in writes
    bool newest_only = false;
    std::size_t maker = 0;
    std::uint64_t handle = 0;
    std::size_t joins = 0;       // whom it waits for
    bool notified = false;       // as it waits for a condition
    std::uint64_t until_ns = 0;  // it waits no longer
    std::uint64_t priority = 0;
    std::uint32_t turn = 0;
  };
  struct Step {
    std::size_t thread = 0;
    Operation operation;
    std::uint64_t value = 0;
    std::uint32_t behind = 0;  // how many values there were after the one that was read
  };
  struct Start {
    Execution* execution = nullptr;
    void* (*body)(void*) = nullptr;
    void* argument = nullptr;
  };
  struct Use {
    std::size_t thread = 0;
    bool writes = false;
    const void* site = nullptr;
    bool operator==(const Use&) const = default;
  };
  struct Ended;

  static void* begin_thread(void* start);
  void end_thread();
  void arrive(Operation operation);
  std::size_t choose();
  std::size_t choose_by_lot(std::size_t* ready, std::size_t count);
  std::size_t choose_waiting();
  bool can_run(std::size_t thread) const;
  bool is_held(const void* mutex) const;
  bool fully_asleep(std::size_t thread);
  void give_turn(std::size_t thread);
  void await_turn(std::size_t thread);
  std::string story() const;

  bool visited(const Operation& operation);
  std::uint32_t pick_value(const Operation& operation, std::uint32_t asleep, Change change, std::uint64_t operand,
                           std::uint64_t expected);
  void ordered(Operation& operation);
  void note(const Operation& operation, std::uint64_t value, std::uint32_t behind);
  void note_use(const Operation& operation);
  bool is_contended(const Operation& operation) const;
  void made_progress(bool written);
  void wake_dependents(const Operation& done);
  void release(const void* mutex);
  void race_unless(bool ordered, const void* address);
  Thread& self() { return threads_[current_]; }

  const Options& options_;
  Choices& choices_;
  Findings& findings_;
  MemoryModel model_;
  std::array<Thread, kThreadsMax> threads_;
  std::array<Start, kThreadsMax> starts_;
  std::size_t count_ = 1;    // of threads, with the first
  std::size_t current_ = 0;  // who has the turn
  bool free_ = false;        // nothing is chosen any more: each in turn, to the end
  bool cut_ = false;
  bool stuck_ = false;  // somebody will never end
  std::uint64_t writes_ = 0;
  std::uint64_t forced_ = 0;  // steps of who waits, since the last that was news to anybody
  std::uint64_t now_ns_ = 1'000'000'000;
  std::uint64_t lowest_ = 0;                               // priority that anybody has
  std::vector<std::pair<const void*, std::size_t>> held_;  // mutexes, and by whom
  std::vector<Step> steps_;
  std::unordered_map<const void*, std::vector<Use>> uses_;  // by object
};

// That of the calling thread, if it is in one and looked at.
Execution* current_execution();

// While it lives the calling thread is the explorer's, not the program's.
using Unwatched = Beforehand;

}  // namespace ebb::interleaving
