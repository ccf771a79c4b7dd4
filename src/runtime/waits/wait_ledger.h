// WaitLedger: to whom waited time and fetched bytes are charged: writes the WaitTable in the statistics page.
//
// Owned by a runtime, under its lock. charge() and fetched() never allocate, and belong to any thread of it; they are
// called only where something was fetched or waited for. Without a table (in a forked child) nothing is charged.
// Invariant: the time charged to operators, to modules, by kind and by cause is the same in sum.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "ebb/waits/wait_table.h"

namespace ebb {

// Rows are named by their number.
struct WaitSubject {
  std::uint32_t op = 0;
  std::uint32_t module = 0;
  TensorKind kind = TensorKind::kOther;
  WaitCause cause = WaitCause::kLate;
};

class WaitLedger {
 public:
  static constexpr std::uint32_t kNobody = 0;  // no operator was running; a module that is not known

  void open(WaitTable* table);
  void detach() { table_ = nullptr; }

  // The row of an operator, that of "(others)" where the table is full. 0: of none.
  std::uint32_t op(std::uint64_t op);
  void name_op(std::uint64_t op, std::string_view name);
  std::uint32_t module(std::string_view name);

  void waits(const WaitSubject& subject);
  void charge(const WaitSubject& subject, std::uint64_t ns);
  // `ahead`: of the bytes, those that were there before they were asked for. To the account of a module only where it
  // is known, and it is asked for only where something is waited for.
  void fetched(const WaitSubject& subject, std::uint64_t bytes, std::uint64_t ahead);
  // One wait is over: it is kept, if it is among the longest.
  void ended(const WaitSubject& subject, std::uint64_t begin_ns, std::uint64_t end_ns);
  WaitReport report() const;

 private:
  static constexpr std::size_t kSlots = 4096;
  using Slots = std::array<std::uint16_t, kSlots>;  // row + 1 by hash of the key, 0: free
  using Rows = decltype(WaitTable::operators);
  static std::uint32_t row(Rows& rows, Slots& slots, std::uint64_t key, std::string_view name);

  WaitTable* table_ = nullptr;
  std::size_t shortest_ = 0;  // of the longest
  Slots op_slots_{};
  Slots module_slots_{};
};

}  // namespace ebb
