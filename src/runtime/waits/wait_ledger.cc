// See wait_ledger.h.
#include "runtime/waits/wait_ledger.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <utility>

namespace ebb {
namespace {

constexpr std::uint32_t kOthers = 1;

void set_name(WaitRow& row, std::string_view name) {
  // The end of a long name tells more than its beginning.
  constexpr std::string_view kCut = "...";
  constexpr std::size_t room = WaitRow::kNameMax - 1;
  const bool cut = name.size() > room;
  if (cut) name.remove_prefix(name.size() - (room - kCut.size()));
  std::size_t at = 0;
  if (cut) at = kCut.copy(row.name, kCut.size());
  at += name.copy(row.name + at, room - at);
  row.name[at] = '\0';
}

template <typename Rows>
void add_rows(const Rows& rows, std::vector<WaitEntry>& entries) {
  const std::uint64_t count = std::min<std::uint64_t>(rows.count.load(std::memory_order_acquire), Rows::kMax);
  for (std::uint64_t i = 0; i < count; ++i) {
    const WaitRow& row = rows.rows[i];
    WaitEntry entry;
    entry.name.assign(row.name, ::strnlen(row.name, sizeof row.name));
    entry.waits = row.waits;
    std::copy_n(row.stall_ns, kWaitCauses, entry.stall_ns.begin());
    entry.fetched_bytes = row.fetched_bytes;
    entry.ahead_bytes = row.ahead_bytes;
    if (entry.waits > 0 || entry.fetched_bytes > 0 || entry.total_ns() > 0) entries.push_back(std::move(entry));
  }
  std::stable_sort(entries.begin(), entries.end(), [](const WaitEntry& a, const WaitEntry& b) {
    return std::pair(a.total_ns(), a.fetched_bytes) > std::pair(b.total_ns(), b.fetched_bytes);
  });
}

std::string name_in(const WaitRow* rows, std::uint32_t row) {
  const WaitRow& found = rows[std::min<std::uint32_t>(row, decltype(WaitTable::operators)::kMax - 1)];
  return std::string(found.name, ::strnlen(found.name, sizeof found.name));
}

void add_longest(const WaitTable& table, std::vector<LongWait>& longest) {
  for (const LongWaitRow& row : table.longest) {
    if (row.ns == 0) continue;
    LongWait wait;
    wait.begin_ns = row.begin_ns;
    wait.ns = row.ns;
    wait.op = name_in(table.operators.rows, row.op);
    wait.module = name_in(table.modules.rows, row.module);
    wait.cause = static_cast<WaitCause>(std::min<std::uint32_t>(row.cause, kWaitCauses - 1));
    wait.kind = static_cast<TensorKind>(std::min<std::uint32_t>(row.kind, kTensorKinds - 1));
    longest.push_back(std::move(wait));
  }
  std::sort(longest.begin(), longest.end(),
            [](const LongWait& a, const LongWait& b) { return a.begin_ns < b.begin_ns; });
}

}  // namespace

WaitReport report_of(const WaitTable& table) {
  WaitReport report;
  add_rows(table.operators, report.operators);
  add_rows(table.modules, report.modules);
  std::copy_n(table.kind_ns, kTensorKinds, report.kind_ns.begin());
  std::copy_n(table.cause_ns, kWaitCauses, report.cause_ns.begin());
  for (const std::uint64_t ns : report.cause_ns) report.total_ns += ns;
  add_longest(table, report.longest);
  return report;
}

void WaitLedger::open(WaitTable* table) {
  table_ = table;
  const auto begin = [](Rows& rows, std::string_view nobody) {
    set_name(rows.rows[kNobody], nobody);
    set_name(rows.rows[kOthers], "(others)");
    rows.count.store(2, std::memory_order_release);
  };
  begin(table->operators, "(no operator)");
  begin(table->modules, "(no module)");
}

std::uint32_t WaitLedger::row(Rows& rows, Slots& slots, std::uint64_t key, std::string_view name) {
  const std::uint64_t count = rows.count.load(std::memory_order_relaxed);
  for (std::size_t at = key % kSlots;; at = (at + 1) % kSlots) {
    if (slots[at] != 0) {
      if (rows.rows[slots[at] - 1].key == key) return slots[at] - 1u;
      continue;  // there are more slots than rows
    }
    if (count == Rows::kMax) return kOthers;
    WaitRow& row = rows.rows[count];
    row.key = key;
    set_name(row, name);
    rows.count.store(count + 1, std::memory_order_release);
    slots[at] = static_cast<std::uint16_t>(count + 1);
    return static_cast<std::uint32_t>(count);
  }
}

std::uint32_t WaitLedger::op(std::uint64_t op) {
  if (table_ == nullptr || op == 0) return kNobody;
  return row(table_->operators, op_slots_, op, "(unnamed)");
}

void WaitLedger::name_op(std::uint64_t op, std::string_view name) {
  if (table_ == nullptr || op == 0) return;
  const std::uint32_t known = row(table_->operators, op_slots_, op, name);
  if (known != kOthers) set_name(table_->operators.rows[known], name);
}

std::uint32_t WaitLedger::module(std::string_view name) {
  if (table_ == nullptr || name.empty()) return kNobody;
  return row(table_->modules, module_slots_, std::hash<std::string_view>{}(name) | 1, name);
}

void WaitLedger::waits(const WaitSubject& subject) {
  if (table_ == nullptr) return;
  ++table_->operators.rows[subject.op].waits;
  ++table_->modules.rows[subject.module].waits;
}

void WaitLedger::charge(const WaitSubject& subject, std::uint64_t ns) {
  if (table_ == nullptr) return;
  const auto cause = static_cast<std::size_t>(subject.cause);
  table_->operators.rows[subject.op].stall_ns[cause] += ns;
  table_->modules.rows[subject.module].stall_ns[cause] += ns;
  table_->kind_ns[static_cast<std::size_t>(subject.kind)] += ns;
  table_->cause_ns[cause] += ns;
}

void WaitLedger::fetched(const WaitSubject& subject, std::uint64_t bytes, std::uint64_t ahead) {
  if (table_ == nullptr) return;
  const auto add = [&](WaitRow& row) {
    row.fetched_bytes += bytes;
    row.ahead_bytes += ahead;
  };
  add(table_->operators.rows[subject.op]);
  if (subject.module != kNobody) add(table_->modules.rows[subject.module]);
}

void WaitLedger::ended(const WaitSubject& subject, std::uint64_t begin_ns, std::uint64_t end_ns) {
  if (table_ == nullptr || end_ns - begin_ns <= table_->longest[shortest_].ns) return;
  table_->longest[shortest_] = {begin_ns,
                                end_ns - begin_ns,
                                subject.op,
                                subject.module,
                                static_cast<std::uint32_t>(subject.cause),
                                static_cast<std::uint32_t>(subject.kind)};
  const auto shorter = [](const LongWaitRow& a, const LongWaitRow& b) { return a.ns < b.ns; };
  const auto* const shortest = std::min_element(std::begin(table_->longest), std::end(table_->longest), shorter);
  shortest_ = static_cast<std::size_t>(shortest - std::begin(table_->longest));
}

WaitReport WaitLedger::report() const { return table_ != nullptr ? report_of(*table_) : WaitReport{}; }

}  // namespace ebb
