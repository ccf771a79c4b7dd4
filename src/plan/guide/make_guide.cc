// See make_guide.h.
#include "plan/guide/make_guide.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ebb {
namespace {

using LaunchIndex = Trace::LaunchIndex;
using TensorIndex = Trace::TensorIndex;

class Maker {
 public:
  Maker(const Trace& trace, GuidePlaces& places, const std::function<std::uint64_t(std::uint32_t)>& op_of)
      : trace_(trace),
        places_(places),
        op_of_(op_of),
        tensors_(trace.tensors.size()),
        born_(trace.launches.size() + 1),
        dead_(trace.launches.size() + 1) {}

  std::unique_ptr<Guide> make();

 private:
  struct Tensor {
    std::uint64_t serial = 0;  // 0: not there
    GuidePlaces::Place place;
  };

  void find_lives();
  void allocate(TensorIndex tensor);
  void free(TensorIndex tensor);
  void launch(const Trace::Launch& launch);

  const Trace& trace_;
  GuidePlaces& places_;
  const std::function<std::uint64_t(std::uint32_t)>& op_of_;
  std::vector<Tensor> tensors_;
  std::vector<std::vector<TensorIndex>> born_;  // before which launch, where the trace says so
  std::vector<std::vector<TensorIndex>> dead_;
  Recording recording_;
  std::uint64_t serial_ = 0;
  std::vector<Touch> touches_;            // scratch
  std::vector<BlockIndex> first_blocks_;  // scratch
};

void Maker::find_lives() {
  std::vector<LaunchIndex> last(trace_.tensors.size(), Trace::kNone);
  for (LaunchIndex i = 0; i < trace_.launches.size(); ++i) {
    for (const TensorIndex tensor : trace_.touched(trace_.launches[i])) last[tensor] = i;
  }
  for (TensorIndex i = 0; i < trace_.tensors.size(); ++i) {
    const Trace::Tensor& tensor = trace_.tensors[i];
    if (tensor.persistent) {
      born_[0].push_back(i);
      continue;
    }
    if (tensor.allocated_before != Trace::kNone) born_[tensor.allocated_before].push_back(i);
    // What dies with the last launch only leaves the trace.
    const LaunchIndex dead = tensor.freed_before != Trace::kNone ? tensor.freed_before : last[i] + 1;
    if (dead < trace_.launches.size()) dead_[dead].push_back(i);
  }
}

void Maker::allocate(TensorIndex index) {
  Tensor& tensor = tensors_[index];
  if (tensor.serial != 0) return;
  const GuidePlaces::Place place = places_.allocate(trace_.tensors[index].bytes, serial_ + 1);
  if (place.bytes == 0) return;
  tensor = {++serial_, place};
  recording_.add_allocation(tensor.serial, place.bytes);
  recording_.add_place(tensor.serial, place.blocks);
}

void Maker::free(TensorIndex index) {
  Tensor& tensor = tensors_[index];
  if (tensor.serial == 0) return;
  recording_.add_free(tensor.serial);
  places_.free(tensor.place.offset);
  tensor = {};
}

// A launch of what is there, and then the allocations that it makes, as when a program runs.
void Maker::launch(const Trace::Launch& launch) {
  touches_.clear();
  first_blocks_.clear();
  for (const TensorIndex index : trace_.touched(launch)) {
    const Tensor& tensor = tensors_[index];
    const auto same = [&](const Touch& touch) { return touch.allocation == tensor.serial; };
    if (tensor.serial == 0 || std::any_of(touches_.begin(), touches_.end(), same)) continue;
    touches_.push_back({tensor.serial, tensor.place.bytes, tensor.place.blocks, false});
    first_blocks_.push_back(tensor.place.blocks.first);
  }
  if (!touches_.empty()) {
    recording_.add_launch(op_of_(launch.op), touches_, first_blocks_);
    if (launch.ns != Trace::kUnknown) recording_.add_duration(launch.ns);
  }
  for (const TensorIndex index : trace_.touched(launch)) {
    if (trace_.tensors[index].allocated_before == Trace::kNone) allocate(index);
  }
}

std::unique_ptr<Guide> Maker::make() {
  recording_.begin(1, 1);
  find_lives();
  // The last step is what lies between the last two marks; without marks it is all.
  LaunchIndex again = 0;
  for (const LaunchIndex step : trace_.steps) again = step < trace_.launches.size() ? step : again;
  Recording::Position again_from = 0;
  auto step = trace_.steps.begin();
  for (LaunchIndex i = 0; i <= trace_.launches.size(); ++i) {
    for (; step != trace_.steps.end() && *step <= i; ++step) places_.step();
    for (const TensorIndex tensor : dead_[i]) free(tensor);
    for (const TensorIndex tensor : born_[i]) allocate(tensor);
    if (i == again) again_from = recording_.size();
    if (i < trace_.launches.size()) launch(trace_.launches[i]);
  }
  if (!recording_.usable() || recording_.uses_total() == 0) return nullptr;
  return std::make_unique<Guide>(std::move(recording_), again_from);
}

}  // namespace

std::unique_ptr<Guide> make_guide(const Trace& trace, GuidePlaces& places,
                                  const std::function<std::uint64_t(std::uint32_t)>& op_of) {
  return Maker(trace, places, op_of).make();
}

}  // namespace ebb
