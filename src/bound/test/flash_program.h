// FlashProgram: what the full programs of the tests of the bound have in common. A launch, a gap, a launch, a gap …:
// slots, of which gaps may stall; and the lanes of flash alone, through which passes what is read or written in a slot.
//
// Made and solved by one test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "bound/program.h"
#include "plan/machine.h"
#include "plan/vitality.h"

namespace ebb {

class FlashProgram {
 public:
  static constexpr double kReach = 1e3;  // more GB, or seconds, than any flow or stall of these traces

  double stall() {
    EXPECT_TRUE(program_.solve(Program::Method::kSimplex));
    return program_.bound();
  }

 protected:
  using Column = Program::Column;
  using Row = Program::Row;

  FlashProgram(const Vitality& vitality, const Machine& machine)
      : vitality_(vitality),
        machine_(machine),
        launches_(static_cast<std::uint32_t>(vitality.vital_bytes.size())),
        slots_(2 * launches_),
        in_(slots_),
        written_(slots_) {
    for (std::uint32_t t = 0; t < slots_; ++t) stalls_.push_back(program_.add_unlimited_column(kReach, t % 2));
    for (std::uint32_t t = 0; t < slots_; t += 2) program_.add_term(program_.add_row(0, 0), stalls_[t], 1);
  }

  static double gigabytes(std::uint64_t bytes) { return static_cast<double>(bytes) * 1e-9; }

  // Once in_ and written_ are complete.
  void add_lanes() {
    const auto limit = [&](std::uint32_t t, std::initializer_list<const std::vector<Column>*> flows, double bps) {
      const double seconds =
          t % 2 == 1 ? 0 : static_cast<double>(vitality_.start_ns[t / 2 + 1] - vitality_.start_ns[t / 2]) * 1e-9;
      const Row row = program_.add_row(-Program::kInfinity, seconds * bps * 1e-9);
      for (const auto* flow : flows) {
        for (const Column column : *flow) program_.add_term(row, column, 1);
      }
      program_.add_term(row, stalls_[t], -bps * 1e-9);
    };
    for (std::uint32_t t = 0; t < slots_; ++t) {
      limit(t, {&in_[t]}, std::min(machine_.device_link_bps, machine_.flash_read_bps));
      limit(t, {&written_[t]}, std::min(machine_.device_link_bps, machine_.flash_write_bps));
      if (machine_.flash_total_bps > 0) limit(t, {&in_[t], &written_[t]}, machine_.flash_total_bps);
    }
  }

  // A row: what must be away at the start or the end of a launch.
  Row add_room(std::uint32_t launch) {
    return program_.add_row(gigabytes(vitality_.vital_bytes[launch]) - gigabytes(machine_.device_bytes),
                            Program::kInfinity);
  }

  const Vitality& vitality_;
  const Machine& machine_;
  const std::uint32_t launches_, slots_;
  Program program_;
  std::vector<Column> stalls_;
  std::vector<std::vector<Column>> in_, written_;  // by slot
};

}  // namespace ebb
