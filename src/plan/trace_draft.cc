// See trace_draft.h.
#include "plan/trace_draft.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "plan/policy.h"

namespace ebb {
namespace {

std::string name_of(std::uint64_t op, const TraceDraft::Names& names) {
  if (const auto known = names.find(op); known != names.end()) return known->second;
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "op-%016llx", static_cast<unsigned long long>(op));
  return text.data();
}

template <typename T>
void add_once(std::vector<T>& list, const T& item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

}  // namespace

std::uint32_t TraceDraft::find_or_add(std::uint64_t serial, std::uint64_t bytes) {
  const auto [found, added] = index_.emplace(serial, static_cast<std::uint32_t>(tensors_.size()));
  if (added) tensors_.push_back({serial, bytes, Trace::kNone, Trace::kNone, {}});
  return found->second;
}

void TraceDraft::allocate(std::uint64_t serial, std::uint64_t bytes) {
  const std::uint32_t tensor = find_or_add(serial, bytes);
  const bool made_by_launch = launches_.size() > (marks_.empty() ? 0 : marks_.back().launches);
  tensors_[tensor].born = static_cast<Trace::LaunchIndex>(launches_.size() - (made_by_launch ? 1 : 0));
  if (made_by_launch) add_once(launches_.back().writes, {tensor, {}});
}

void TraceDraft::launch(std::uint64_t op) { launches_.push_back({op, 0, {}, {}}); }

void TraceDraft::use(std::uint64_t serial, std::uint64_t bytes, const Part& part, bool written) {
  const std::uint32_t tensor = find_or_add(serial, bytes);
  tensors_[tensor].parts.add(part);
  add_once(launches_.back().reads, {tensor, part});
  if (written) add_once(launches_.back().writes, {tensor, part});
}

void TraceDraft::run(std::uint64_t ns) {
  if (!launches_.empty()) launches_.back().ns += ns;
}

void TraceDraft::free(std::uint64_t serial) {
  const auto found = index_.find(serial);
  if (found != index_.end()) tensors_[found->second].freed = static_cast<Trace::LaunchIndex>(launches_.size());
}

void TraceDraft::end_iteration() {
  if (launches_.size() > (marks_.empty() ? 0 : marks_.back().launches)) {
    marks_.push_back({launches_.size(), tensors_.size()});
  }
}

std::vector<TraceDraft::Piece> TraceDraft::add_tensors(Trace& trace, Mark end) const {
  std::vector<Piece> places;
  for (std::uint32_t i = 0; i < end.tensors; ++i) {
    const Tensor& from = tensors_[i];
    places.push_back({from.parts.pieces(), static_cast<Trace::TensorIndex>(trace.tensors.size())});
    for (std::uint32_t piece = 0; piece < places.back().pieces.count(); ++piece) {
      Trace::Tensor tensor;
      tensor.id = static_cast<std::uint32_t>(trace.tensors.size());
      tensor.bytes = places.back().pieces.bytes(from.bytes, piece);
      tensor.allocated_before = from.born;
      tensor.freed_before = from.freed == Trace::kNone || from.freed > end.launches ? Trace::kNone : from.freed;
      tensor.persistent = tensor.allocated_before == Trace::kNone && tensor.freed_before == Trace::kNone;
      tensor.mapped = tensor.persistent && from.serial >= kLastingSerials;
      tensor.continues = piece > 0;
      trace.tensors.push_back(tensor);
    }
  }
  return places;
}

Trace TraceDraft::finish(const Names& names, Mark end) const {
  Trace trace;
  trace.source = "ebb run --record";
  const std::vector<Piece> places = add_tensors(trace, end);
  std::map<std::uint64_t, std::uint32_t> ops;
  std::vector<Trace::TensorIndex> touched;
  for (std::uint32_t i = 0; i < end.launches; ++i) {
    const Launch& from = launches_[i];
    const auto [op, added] = ops.emplace(from.op, static_cast<std::uint32_t>(trace.ops.size()));
    if (added) trace.ops.push_back(name_of(from.op, names));
    Trace::Launch launch{op->second, static_cast<std::uint32_t>(trace.uses.size()), 0, 0, from.ns};
    for (const auto* list : {&from.reads, &from.writes}) {
      touched.clear();
      for (const Use& use : *list) {
        const auto& [pieces, first] = places[use.tensor];
        const Cuts::Range range = pieces.of(use.part);
        for (std::uint32_t piece = range.first; piece < range.end; ++piece) add_once(touched, first + piece);
      }
      (list == &from.reads ? launch.reads : launch.writes) = static_cast<std::uint32_t>(touched.size());
      for (const Trace::TensorIndex tensor : touched) {
        trace.uses.push_back(tensor);
        Trace::LaunchIndex& freed = trace.tensors[tensor].freed_before;
        if (freed != Trace::kNone) freed = std::max(freed, i + 1);
      }
    }
    trace.launches.push_back(launch);
  }
  for (const Piece& place : places) {  // they end together
    const auto all = std::span(trace.tensors).subspan(place.first, place.pieces.count());
    const auto by_end = [](const auto& left, const auto& right) { return left.freed_before < right.freed_before; };
    const Trace::LaunchIndex freed = std::max_element(all.begin(), all.end(), by_end)->freed_before;
    for (Trace::Tensor& tensor : all) tensor.freed_before = freed;
  }
  return trace;
}

Trace TraceDraft::finish(const Names& names) const {
  Trace trace = finish(names, {launches_.size(), tensors_.size()});
  trace.steps.push_back(static_cast<Trace::LaunchIndex>(trace.launches.size()));
  return trace;
}

Trace TraceDraft::finish_sequence(const Names& names) const {
  Trace trace = finish(names, marks_.empty() ? Mark{} : marks_.back());
  trace.sequence = true;
  for (const Mark& mark : marks_) trace.steps.push_back(static_cast<Trace::LaunchIndex>(mark.launches));
  // What is there at either end is said to be: nothing repeats.
  for (Trace::Tensor& tensor : trace.tensors) {
    if (tensor.persistent) continue;
    if (tensor.allocated_before == Trace::kNone) tensor.allocated_before = 0;
    if (tensor.freed_before == Trace::kNone) {
      tensor.freed_before = static_cast<Trace::LaunchIndex>(trace.launches.size());
    }
  }
  return trace;
}

}  // namespace ebb
