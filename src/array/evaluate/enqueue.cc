// evaluate() in a stream: passes as launches that declare to the byte what they use. The stream fetches that ahead of
// their turn, and keeps their order; only who needs values waits.
#include <algorithm>

#include "array/device/placement.h"
#include "array/evaluate/evaluate.h"
#include "ebb/array.h"

namespace ebb {
namespace array {
namespace {

// Elements of a launch: enough for threads to share, few enough to be read, computed and written at the same time.
constexpr std::int64_t kLaunchElements = static_cast<std::int64_t>(2 * kMiB);
// A pass of which every launch would use more than this of the same memory is one launch.
constexpr std::int64_t kSharedBytesMax = static_cast<std::int64_t>(16 * kMiB);

void run_parts(std::int64_t count, const std::function<void(std::int64_t)>& task) {
  parallel_for(static_cast<std::size_t>(count), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) task(static_cast<std::int64_t>(i));
  });
}

// What the kernels of a pass share and keep.
struct Work {
  NodePtr node;
  Pass pass;
  std::int64_t each;  // parts of a launch
  std::shared_ptr<QueuedPass> queued;
  std::vector<std::shared_ptr<QueuedPass>> before;  // of operands

  void run(std::int64_t first, std::int64_t end) const {
    for (const auto& operand : before) {
      if (!operand->succeeded()) throw Error(Status::kInvalid, "array: an operand could not be computed");
    }
    pass.run(first, end, run_parts);
    queued->count_done();
  }
};
using WorkPtr = std::shared_ptr<const Work>;

// Makes the passes that the node needs, and places it: from here on others see its memory.
void prepare(const NodePtr& node, const std::shared_ptr<Runtime>& runtime, std::vector<WorkPtr>& works) {
  if (node->is_leaf() || node->queued != nullptr) return;
  std::vector<std::shared_ptr<QueuedPass>> before;
  for (const NodePtr& needed : needed_first(node)) {
    prepare(needed, runtime, works);
    if (needed->queued != nullptr) before.push_back(needed->queued);
  }
  node->storage->take_from(*new_storage(*node));
  // Of a GPU's arrays the stream, which is one of the host, gets copies.
  Combined combined = on_host(combine(elementwise_part(node)));
  const std::vector<NodePtr> operands = combined.operands;
  Pass pass = make_pass(node, std::move(combined), *node->storage);
  const bool is_split = pass.accesses.shared_bytes() <= kSharedBytesMax;
  const std::int64_t each = is_split ? kLaunchElements : std::max<std::int64_t>(pass.count, 1);
  const auto queued = std::make_shared<QueuedPass>(runtime, (pass.count + each - 1) / each);
  // Somebody may evaluate this node because he wants to write to what it reads, without any other that is between.
  for (const NodePtr& operand : operands) register_reader(node, operand);
  works.push_back(std::make_shared<const Work>(Work{node, std::move(pass), each, queued, std::move(before)}));
  queued->keep_inputs(std::move(node->inputs));
  node->queued = queued;
  node->placed.store(true, std::memory_order_release);
}

void launch(const WorkPtr& work, Stream& stream) {
  const Pass& pass = work->pass;
  for (const auto& operand : work->before)
    stream.wait(operand->last());  // all of it, also if that is in another stream
  for (std::int64_t first = 0; first < pass.count; first += work->each) {
    const std::int64_t end = std::min(pass.count, first + work->each);
    stream.launch(pass.accesses.label(), pass.accesses.uses(first, end), [work, first, end] { work->run(first, end); });
  }
  work->queued->set_launched(stream.record());
  count_pass(pass.operators);
}

// Held from the placing of a node until its launches are in their stream, so that those of who reads it come later.
std::mutex& launch_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

}  // namespace

void evaluate(const NodePtr& node, Stream& stream) {
  if (current_device() != nullptr || dynamic_cast<DeviceRuntime*>(stream.runtime().get()) != nullptr) {
    throw Error(Status::kUnsupported,
                "arrays on a GPU are evaluated in a stream of its own already: call evaluate() without one");
  }
  stream.record();  // refuses a kernel and the child of a fork, which would wait for themselves
  std::lock_guard in_order(launch_mutex());
  std::vector<WorkPtr> works;
  try {
    for (;;) {
      std::unique_lock lock(evaluation_mutex());
      const auto pending = unfinished(node, stream.runtime().get());
      if (pending == nullptr) {
        prepare(node, stream.runtime(), works);
        break;
      }
      lock.unlock();
      pending->wait();
    }
    for (const WorkPtr& work : works) launch(work, stream);
  } catch (...) {
    for (const WorkPtr& work : works) work->queued->set_launched(stream.record());  // but they have not succeeded
    throw;
  }
}

}  // namespace array

// Here, so that only who uses it links streams.
const Array& Array::evaluate(Stream& stream) const {
  array::evaluate(node_, stream);
  return *this;
}

}  // namespace ebb
