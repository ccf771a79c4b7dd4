// WaitTable: the accounts of waits as they lie in the statistics page (stats_page.h): of fixed size, written in place.
//
// One writer. A reader of a running program may see counters that are one wait apart; names never change once counted.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "ebb/waits/waits.h"

namespace ebb {

struct WaitRow {
  static constexpr std::size_t kNameMax = 96;
  char name[kNameMax];
  std::uint64_t key;
  std::uint64_t waits;
  std::uint64_t stall_ns[kWaitCauses];
  std::uint64_t fetched_bytes;
  std::uint64_t ahead_bytes;
};

template <std::size_t size>
struct WaitRows {
  static constexpr std::size_t kMax = size;
  std::atomic<std::uint64_t> count;  // at least 2: of what has no name, and of what found no row
  WaitRow rows[size];
};

struct LongWaitRow {
  std::uint64_t begin_ns;
  std::uint64_t ns;
  std::uint32_t op, module;  // rows
  std::uint32_t cause, kind;
};

struct WaitTable {
  WaitRows<1024> operators;
  WaitRows<1024> modules;
  std::uint64_t kind_ns[kTensorKinds];
  std::uint64_t cause_ns[kWaitCauses];
  static constexpr std::size_t kLongestMax = 512;
  LongWaitRow longest[kLongestMax];  // in no order; `ns` of 0: none
};

WaitReport report_of(const WaitTable& table);

}  // namespace ebb
