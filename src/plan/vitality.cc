// See vitality.h.
#include "plan/vitality.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace ebb {
namespace {

// Adds `bytes` to launches [from, to) of a series that accumulate() turns into sums; modulo 2^64, so differences may be
// negative in between.
void add(std::vector<std::uint64_t>& series, std::uint32_t from, std::uint32_t to, std::uint64_t bytes) {
  series[from] += bytes;
  series[to] -= bytes;
}

void accumulate(std::vector<std::uint64_t>& series) {
  for (std::size_t k = 1; k < series.size(); ++k) series[k] += series[k - 1];
  series.pop_back();
}

class Analysis {
 public:
  Analysis(const Trace& trace, std::uint64_t granule_bytes, Dead dead, std::uint32_t first)
      : trace_(trace),
        first_(first),
        launches_(static_cast<std::uint32_t>(trace.launches.size()) - first),
        stays_(dead == Dead::kStays) {
    EBB_CHECK(granule_bytes > 0);
    EBB_CHECK(first == 0 || (trace.sequence && first < trace.launches.size()));
    result_.granule_bytes = granule_bytes;
    result_.dead = dead;
    result_.sequence = trace.sequence;
  }

  Vitality run() {
    time_launches();
    collect_uses();
    for (auto* series : {&result_.live_bytes, &result_.vital_bytes, &result_.working_set_bytes}) {
      series->assign(launches_ + 1, 0);
    }
    for (std::uint32_t tensor = 0; tensor < result_.tensors.size(); ++tensor) {
      live(tensor);
      if (trace_.sequence) {
        find_periods_once(tensor);
      } else {
        find_periods(tensor);
      }
    }
    for (auto* series : {&result_.live_bytes, &result_.vital_bytes, &result_.working_set_bytes}) accumulate(*series);
    std::sort(result_.periods.begin(), result_.periods.end(),
              [](const auto& a, const auto& b) { return std::tie(a.after, a.tensor) < std::tie(b.after, b.tensor); });
    find_peaks();
    return std::move(result_);
  }

 private:
  using Use = Vitality::Use;
  using Life = Vitality::Life;

  void time_launches() {
    result_.start_ns.push_back(0);
    for (std::uint32_t k = 0; k < launches_; ++k) {
      const Trace::Launch& launch = this->launch(k);
      const bool known = launch.ns != Trace::kUnknown;
      result_.unknown_durations += known ? 0 : 1;
      result_.start_ns.push_back(result_.start_ns.back() + (known ? launch.ns : 0));
    }
  }

  const Trace::Launch& launch(std::uint32_t index) const { return trace_.launches[first_ + index]; }

  // Lays the uses out tensor by tensor: counted first, then filled in launch by launch, so they are in order.
  void collect_uses() {
    result_.tensors.resize(trace_.tensors.size());
    used_before_.resize(trace_.tensors.size());
    for (std::uint32_t k = 0; k < first_; ++k) {
      for (const auto tensor : trace_.touched(trace_.launches[k])) used_before_[tensor] = true;
    }
    std::vector<std::uint32_t> last(trace_.tensors.size(), Trace::kNone);
    for (std::uint32_t k = 0; k < launches_; ++k) {
      for (const auto tensor : trace_.touched(launch(k))) {
        if (last[tensor] != k) ++result_.tensors[tensor].count;
        last[tensor] = k;
      }
    }
    std::uint32_t total = 0;
    for (Life& life : result_.tensors) {
      life.first_use = total;
      total += life.count;
      life.count = 0;
    }
    result_.uses.resize(total);
    for (std::uint32_t k = 0; k < launches_; ++k) {
      for (const auto tensor : trace_.reads(launch(k))) use_at(tensor, k).reads = true;
      for (const auto tensor : trace_.writes(launch(k))) {
        use_at(tensor, k).writes = true;
        result_.tensors[tensor].written = true;
      }
    }
  }

  Use& use_at(std::uint32_t tensor, std::uint32_t launch) {
    Life& life = result_.tensors[tensor];
    if (life.count == 0 || result_.uses[life.first_use + life.count - 1].launch != launch) {
      result_.uses[life.first_use + life.count++] = {launch, false, false};
    }
    return result_.uses[life.first_use + life.count - 1];
  }

  // Of a launch of the trace, or the first of ours if it is earlier.
  std::uint32_t here(std::uint32_t launch) const { return launch - std::min(launch, first_); }

  void live(std::uint32_t tensor) {
    const Trace::Tensor& declared = trace_.tensors[tensor];
    Life& life = result_.tensors[tensor];
    const std::uint64_t granule = result_.granule_bytes;
    life.bytes = (declared.bytes + granule - 1) / granule * granule;
    life.persistent = declared.persistent;
    const auto uses = result_.uses_of(tensor);
    if (life.persistent) {
      life.born = 0;
      life.dies = launches_;
    } else {
      const bool allocated = declared.allocated_before != Trace::kNone;
      const bool freed = declared.freed_before != Trace::kNone;
      const std::uint32_t first = uses.empty() ? launches_ : uses.front().launch;
      const std::uint32_t last = uses.empty() ? 0 : uses.back().launch + 1;
      life.born = std::min(allocated ? here(declared.allocated_before) : first, first);
      if (used_before_[tensor]) life.born = 0;
      life.dies = std::max(freed ? here(declared.freed_before) : (allocated && uses.empty() ? launches_ : last), last);
      life.born = std::min(life.born, life.dies);
    }
    add(result_.live_bytes, life.born, life.dies, life.bytes);
    for (const Use& use : uses) add(result_.working_set_bytes, use.launch, use.launch + 1, life.bytes);
  }

  void find_periods(std::uint32_t tensor) {
    const Life& life = result_.tensors[tensor];
    const auto uses = result_.uses_of(tensor);
    if (uses.empty()) return;
    if (life.persistent) {
      add(result_.vital_bytes, 0, launches_, life.bytes);
    } else {
      add(result_.vital_bytes, uses.front().launch, stays_ ? life.dies : uses.back().launch + 1, life.bytes);
    }
    // The content that a persistent tensor starts with was made by the last launch of the iteration that writes it.
    std::uint32_t made = life.persistent ? Trace::kNone : uses.front().launch;
    for (const Use& use : uses) {
      if (life.persistent && use.writes) made = use.launch;
    }
    for (std::size_t i = 0; i < uses.size(); ++i) {
      if (uses[i].writes) made = uses[i].launch;
      const bool wraps = i + 1 == uses.size();
      if (wraps && !life.persistent) {
        if (stays_ && life.dies > uses[i].launch + 1) add_period(tensor, uses[i].launch, {life.dies}, false, made);
        return;
      }
      const Use& next = wraps ? uses.front() : uses[i + 1];
      const std::uint32_t distance = next.launch + (wraps ? launches_ : 0) - uses[i].launch;
      if (distance > 1) add_period(tensor, uses[i].launch, next, wraps, made);
    }
  }

  // In a sequence.
  void find_periods_once(std::uint32_t tensor) {
    const Life& life = result_.tensors[tensor];
    const auto uses = result_.uses_of(tensor);
    if (uses.empty()) return;
    const Use &first = uses.front(), &last = uses.back();
    const bool was_used = life.persistent || used_before_[tensor];
    const bool from_start = was_used && (first.reads || stays_);
    add(result_.vital_bytes, from_start ? 0 : first.launch, stays_ ? life.dies : last.launch + 1, life.bytes);
    // What was there before the first launch may have a copy below.
    const bool was_there = was_used || trace_.tensors[tensor].allocated_before <= first_;
    std::uint32_t made = Trace::kNone;
    if (from_start && first.launch > 0) add_period(tensor, launches_, first, true, made);
    if (!was_there || !first.reads) made = first.launch;
    for (std::size_t i = 0; i < uses.size(); ++i) {
      if (uses[i].writes) made = uses[i].launch;
      const bool ends = i + 1 == uses.size();
      if (ends && !stays_) return;
      const Use next = ends ? Use{life.dies} : uses[i + 1];
      if (next.launch > uses[i].launch + 1) add_period(tensor, uses[i].launch, next, false, made);
    }
  }

  void add_period(std::uint32_t tensor, std::uint32_t after, const Use& next, bool wraps, std::uint32_t made) {
    Vitality::Period period;
    period.tensor = tensor;
    period.after = after;
    period.before = next.launch;
    period.wraps = wraps;
    period.needed = next.reads;
    period.made = made;
    period.bytes = result_.tensors[tensor].bytes;
    const auto& start = result_.start_ns;
    const std::uint64_t end_ns = start[std::min(after + 1, launches_)];
    period.ns = wraps ? start.back() - end_ns + start[next.launch] : start[next.launch] - end_ns;
    result_.periods.push_back(period);
    if (period.needed || stays_) return;
    if (wraps) {
      add(result_.vital_bytes, 0, next.launch, 0 - period.bytes);
      add(result_.vital_bytes, after + 1, launches_, 0 - period.bytes);
    } else {
      add(result_.vital_bytes, after + 1, next.launch, 0 - period.bytes);
    }
  }

  void find_peaks() {
    for (std::uint32_t k = 0; k < launches_; ++k) {
      if (result_.live_bytes[k] > result_.peak_live_bytes) {
        result_.peak_live_bytes = result_.live_bytes[k];
        result_.peak_live_launch = k;
      }
      if (result_.working_set_bytes[k] > result_.working_set_bytes_max) {
        result_.working_set_bytes_max = result_.working_set_bytes[k];
        result_.working_set_max_launch = k;
      }
      result_.peak_vital_bytes = std::max(result_.peak_vital_bytes, result_.vital_bytes[k]);
    }
  }

  const Trace& trace_;
  const std::uint32_t first_, launches_;
  const bool stays_;               // dead content
  std::vector<bool> used_before_;  // by tensor: before the first launch
  Vitality result_;
};

}  // namespace

Vitality analyse(const Trace& trace, std::uint64_t granule_bytes, Dead dead, Trace::LaunchIndex first) {
  return Analysis(trace, granule_bytes, dead, first).run();
}

}  // namespace ebb
