// See course.h.
#include "bound/course.h"

#include <utility>

namespace ebb::fluid {
namespace {

using Column = Program::Column;
using Columns = Course::Columns;
using Row = Program::Row;

constexpr double kInfinity = Program::kInfinity;

class Maker {
 public:
  Maker(Program& program, const Group& group, std::uint32_t slots, double reach)
      : program_(program), group_(group), slots_(slots), reach_(reach) {}

  Course make(Copies copies);

 private:
  struct Stock {
    std::vector<Row> change;  // by slot
    Row at_end = 0;
  };
  std::uint32_t before(std::uint32_t slot) const { return slot == 0 ? slots_ - 1 : slot - 1; }
  Columns column_each();
  Stock add_stock(const Columns& pool);
  void add_span(const Stock& stock, Column column, std::uint32_t from, std::uint32_t to, bool crosses);
  void add_pools();
  void add_writing();
  void add_leaving(const Columns& copies);

  Program& program_;
  const Group& group_;
  const std::uint32_t slots_;
  const double reach_;
  Course course_;
};

Columns Maker::column_each() {
  Columns columns(slots_);
  for (auto& column : columns) column = program_.add_unlimited_column(reach_);
  return columns;
}

Course Maker::make(Copies copies) {
  for (auto* const columns : {&course_.out, &course_.in, &course_.here, &course_.absent, &course_.back}) {
    *columns = column_each();
  }
  for (const Class& each : group_) {
    course_.amounts.emplace_back();
    for (std::size_t i = 0; i < each.absences.size(); ++i) {
      course_.amounts.back().push_back(program_.add_column(scaled(each.bytes)));
    }
  }
  add_pools();
  course_.written = course_.out;
  if (copies == Copies::kKeptClean) add_writing();
  return std::move(course_);
}

void Maker::add_pools() {
  std::vector<Row> here(slots_), absent(slots_), back(slots_);
  for (std::uint32_t t = 0; t < slots_; ++t) {
    const auto balance = [&](const Columns& pool, const Columns* from, const Columns* to) {
      const Row row = program_.add_row(0, 0);
      if (slots_ > 1) {
        program_.add_term(row, pool[t], -1);
        program_.add_term(row, pool[before(t)], 1);
      }
      if (from != nullptr) program_.add_term(row, (*from)[t], 1);
      if (to != nullptr) program_.add_term(row, (*to)[t], -1);
      return row;
    };
    here[t] = balance(course_.here, nullptr, &course_.out);
    absent[t] = balance(course_.absent, &course_.out, &course_.in);
    back[t] = balance(course_.back, &course_.in, nullptr);
  }
  // What is open at the end of the iteration is in one of the pools, and nothing else is: without this a pool could be
  // full for ever without anything having left.
  const Row anchor = program_.add_row(0, 0);
  for (const auto* pool : {&course_.here, &course_.absent, &course_.back}) {
    program_.add_term(anchor, pool->back(), 1);
  }
  for (std::size_t c = 0; c < group_.size(); ++c) {
    for (std::size_t i = 0; i < course_.amounts[c].size(); ++i) {
      const Absence& absence = group_[c].absences[i];
      program_.add_term(here[absence.begin], course_.amounts[c][i], 1);
      program_.add_term((absence.returns ? back : absent)[absence.due], course_.amounts[c][i], -1);
      if (absence.crosses) program_.add_term(anchor, course_.amounts[c][i], -1);
    }
  }
}

// Adds `column` to a stock that exists from the end of slot `from` to the end of slot `to`.
void Maker::add_span(const Stock& stock, Column column, std::uint32_t from, std::uint32_t to, bool crosses) {
  if (from != to) {
    program_.add_term(stock.change[from], column, 1);
    program_.add_term(stock.change[to], column, -1);
  }
  if (crosses) program_.add_term(stock.at_end, column, -1);
}

// pool[t] = pool[t - 1] + what is added to change[t], around the iteration; at its end what is added to at_end.
Maker::Stock Maker::add_stock(const Columns& pool) {
  Stock stock;
  for (std::uint32_t t = 0; t < slots_; ++t) {
    stock.change.push_back(program_.add_row(0, 0));
    if (slots_ == 1) continue;
    program_.add_term(stock.change[t], pool[before(t)], 1);
    program_.add_term(stock.change[t], pool[t], -1);
  }
  stock.at_end = program_.add_row(0, 0);
  program_.add_term(stock.at_end, pool.back(), 1);
  return stock;
}

// With clean copies kept, bytes can be written as soon as they were made, once for all absences of a content.
void Maker::add_writing() {
  course_.written = column_each();
  const auto promised = column_each();   // contents that exist: what of them is written sooner or later
  const auto unwritten = column_each();  // of that, what is not written yet
  const Stock promises = add_stock(promised);
  std::vector<Row> made(slots_);
  for (std::uint32_t t = 0; t < slots_; ++t) {
    made[t] = program_.add_row(0, 0);
    if (slots_ > 1) {
      program_.add_term(made[t], unwritten[before(t)], 1);
      program_.add_term(made[t], unwritten[t], -1);
    }
    program_.add_term(made[t], course_.written[t], -1);
    add_at_most(program_, unwritten[t], promised[t]);
  }
  Columns copies(group_.size());
  for (std::size_t c = 0; c < group_.size(); ++c) {
    const Class& each = group_[c];
    const auto& amounts = course_.amounts[c];
    if (each.clean) continue;
    copies[c] = amounts.size() == 1 ? amounts[0] : program_.add_column(scaled(each.bytes));
    program_.add_term(made[each.made], copies[c], 1);
    add_span(promises, copies[c], each.made, each.absences.back().due, each.absences.back().made_before);
    for (std::size_t i = 0; amounts.size() > 1 && i < amounts.size(); ++i) add_at_most(program_, amounts[i], copies[c]);
  }
  add_leaving(copies);
}

// What leaves was written before, and may leave once for that. Bytes of different contents are not told apart, so this
// is said of one absence of each content, the leading one; in the others it may leave for nothing.
void Maker::add_leaving(const Columns& copies) {
  const auto leavable = column_each();  // what could leave without a further write, were all promises kept
  const auto ready = column_each();     // of that, what can leave now
  const Stock leaving = add_stock(leavable);
  std::vector<Row> left(slots_);
  for (std::uint32_t t = 0; t < slots_; ++t) {
    left[t] = program_.add_row(0, kInfinity);
    if (slots_ > 1) {
      program_.add_term(left[t], ready[before(t)], 1);
      program_.add_term(left[t], ready[t], -1);
    }
    program_.add_term(left[t], course_.written[t], 1);
    program_.add_term(left[t], course_.out[t], -1);
    const Row once = program_.add_row(0, kInfinity);  // what has left cannot leave again
    program_.add_term(once, leavable[t], 1);
    for (const Column each : {ready[t], course_.absent[t], course_.back[t]}) program_.add_term(once, each, -1);
  }
  for (std::size_t c = 0; c < group_.size(); ++c) {
    const Class& each = group_[c];
    for (std::size_t i = 0; i < each.absences.size(); ++i) {
      const Absence& absence = each.absences[i];
      if (!each.clean && i == each.leads) {
        add_span(leaving, copies[c], each.made, absence.due, absence.made_before);
      } else {
        program_.add_term(left[absence.begin], course_.amounts[c][i], 1);
        add_span(leaving, course_.amounts[c][i], absence.begin, absence.due, absence.crosses);
      }
    }
  }
}

}  // namespace

Course add_course(Program& program, const Group& group, std::uint32_t slots, double reach, Copies copies) {
  return Maker(program, group, slots, reach).make(copies);
}

void add_at_most(Program& program, Column part, Column whole) {
  const Row row = program.add_row(0, kInfinity);
  program.add_term(row, whole, 1);
  program.add_term(row, part, -1);
}

}  // namespace ebb::fluid
