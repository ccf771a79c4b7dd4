// Passes over managed memory are several launches on consecutive elements, so that what one announces fits, and what
// the next ones need is fetched meanwhile. Gathered operands are in the way of that: then it is one launch.
#include "array/device/opencl_pass.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "array/graph/expression.h"
#include "array/source/source.h"
#include "ebb/array.h"
#include "ebb/opencl/device.h"

namespace ebb {
namespace array {
namespace {

constexpr std::size_t kGroup = 64;
constexpr std::int64_t kManagedBytes = 16 * static_cast<std::int64_t>(kMiB);  // of the widest array in a launch
constexpr std::int64_t kAlignedElements = 4096;  // a launch begins where its elements are aligned as the first ones are
constexpr std::size_t kAheadMax = 2;             // launches that the runtime is told of before their turn

struct InUse {
  std::mutex mutex;
  std::shared_ptr<OpenClDevice> device;
  std::int64_t elements_min = kOpenClElementsMin;
};

InUse& in_use() {
  static auto* const one = new InUse;  // never destroyed: the driver's threads may end before this
  return *one;
}

std::atomic<std::uint64_t> opencl_passes{0};

// Whether the device has the types, and rounds as the CPU does.
bool is_exact_for(const OpenClDeviceInfo& info, DType dtype) {
  return dtype == DType::kF64 ? info.has_f64 && info.exact_f32 : !is_float(dtype) || info.exact_f32;
}

bool is_exact_for(const OpenClDeviceInfo& info, const Expression& expression) {
  for (const NodePtr& operand : expression.operands) {
    if (!is_exact_for(info, operand->dtype())) return false;
  }
  for (const NodePtr& node : expression.operators) {
    if (!is_exact_for(info, node->dtype())) return false;
    const bool divides = node->op == Op::kDivide || node->op == Op::kSqrt || node->op == Op::kReciprocal;
    if (divides && node->inputs.front()->dtype() != DType::kF64 && !info.exact_divide) return false;
  }
  return true;
}

// The runtime whose memory is among the arrays. False: there are two, and a launch knows one; or it is that of a GPU.
bool find_runtime(const KernelSource& source, const Target& target, std::shared_ptr<Runtime>& runtime) {
  const auto take = [&runtime](const Storage* storage) {
    if (storage != nullptr && storage->device != nullptr) return false;
    if (storage == nullptr || storage->runtime == nullptr || !storage->runtime->manages(storage->data)) return true;
    if (runtime == nullptr) runtime = storage->runtime;
    return runtime == storage->runtime;
  };
  return take(target.storage) && std::all_of(source.operands.begin(), source.operands.end(),
                                             [&](const NodePtr& node) { return take(node->storage.get()); });
}

class DevicePass {
 public:
  DevicePass(OpenClDevice& device, const KernelSource& source, const Target& target, std::shared_ptr<Runtime> runtime)
      : device_(device),
        source_(source),
        target_(target),
        runtime_(std::move(runtime)),
        kernel_(device.compile(source.text, "ebb_pass")) {
    piece_ = count();
    if (std::count(source.reads.begin(), source.reads.end(), KernelSource::Reads::kGathered) > 0) return;
    auto widest = static_cast<std::int64_t>(size_of(target.shape->dtype));
    for (const NodePtr& node : source.operands) {
      widest = std::max(widest, static_cast<std::int64_t>(size_of(node->dtype())));
    }
    std::int64_t bytes = runtime_ != nullptr ? kManagedBytes : count() * widest;
    if (device.path() != OpenClPath::kSystemSvm) {
      bytes = std::min<std::int64_t>(bytes, static_cast<std::int64_t>(device.info().buffer_bytes_max));
    }
    piece_ = std::clamp(bytes / widest / kAlignedElements * kAlignedElements, kAlignedElements, piece_);
  }
  DevicePass(const DevicePass&) = delete;
  DevicePass& operator=(const DevicePass&) = delete;
  ~DevicePass() {
    for (std::uint64_t number : expected_) {
      if (runtime_ != nullptr) runtime_->forget(number);
    }
  }

  void run() {
    for (std::int64_t first = 0; first < count(); first += piece_) {
      const std::vector<OpenClArgument> arguments = arguments_of(first);
      look_ahead(first);
      device_.launch(*kernel_, range_of(first), arguments, runtime_.get());
    }
  }

 private:
  std::int64_t count() const { return target_.shape->count; }
  std::int64_t elements_of(std::int64_t first) const { return std::min(piece_, count() - first); }

  OpenClRange range_of(std::int64_t first) const {
    const auto elements = static_cast<std::size_t>(elements_of(first));
    return {.x = (elements + kGroup - 1) / kGroup * kGroup, .group_x = kGroup};
  }

  std::vector<OpenClArgument> arguments_of(std::int64_t first) const {
    const std::int64_t elements = elements_of(first);
    const auto element = static_cast<std::int64_t>(size_of(target_.shape->dtype));
    std::vector<OpenClArgument> arguments{std::int64_t{0}, elements,
                                          reads(source_.layout.data(), source_.layout.size())};
    arguments.emplace_back(overwrites(static_cast<void*>(target_.data + first * element),
                                      static_cast<std::size_t>(elements * element), target_.storage->data));
    for (std::size_t k = 0; k < source_.operands.size(); ++k) arguments.emplace_back(operand(k, first, elements));
    return arguments;
  }

  Use operand(std::size_t k, std::int64_t first, std::int64_t elements) const {
    const Node& node = *source_.operands[k];
    const auto element = static_cast<std::int64_t>(size_of(node.dtype()));
    const bool in_order = source_.reads[k] == KernelSource::Reads::kInOrder;
    const std::int64_t begin = node.shape->lowest + (in_order ? first : 0);
    const std::int64_t span = in_order ? elements : node.shape->highest - node.shape->lowest + 1;
    const void* const data = node.data() + begin * element;
    return reads(data, static_cast<std::size_t>(span * element),
                 node.storage != nullptr ? node.storage->data : nullptr);
  }

  // The launches after this one are expected; this one is no longer.
  void look_ahead(std::int64_t first) {
    if (runtime_ == nullptr) return;
    if (first > 0 && !expected_.empty()) {
      runtime_->forget(expected_.front());
      expected_.erase(expected_.begin());
    }
    for (std::int64_t next = first + piece_ * static_cast<std::int64_t>(expected_.size() + 1);
         expected_.size() < kAheadMax && next < count(); next += piece_) {
      std::vector<Access> accesses;
      for (const OpenClArgument& argument : arguments_of(next)) {
        const Use* const use = argument.use();
        if (use == nullptr || use->bytes == 0 || !runtime_->manages(use->data)) continue;
        const bool written = use->kind != Use::Kind::kReads;
        accesses.push_back({use->data, use->bytes, use->allocation, 0, written, written});
      }
      expected_.push_back(runtime_->expect(accesses));
    }
  }

  OpenClDevice& device_;
  const KernelSource& source_;
  const Target& target_;
  const std::shared_ptr<Runtime> runtime_;
  const std::shared_ptr<OpenClKernel> kernel_;
  std::int64_t piece_ = 0;  // elements in a launch
  std::vector<std::uint64_t> expected_;
};

}  // namespace

bool opencl_pass(const NodePtr& node, const Target& target) {
  std::shared_ptr<OpenClDevice> device;
  {
    const std::lock_guard lock(in_use().mutex);
    if (in_use().device == nullptr || target.shape->count < in_use().elements_min) return false;
    device = in_use().device;
  }
  if (!device->usable()) return false;
  const Expression expression(node);
  if (!is_exact_for(device->info(), expression)) return false;
  const KernelSource source = generate(node, node->shape, Dialect::kOpenCl);
  std::shared_ptr<Runtime> runtime;
  if (!find_runtime(source, target, runtime)) return false;
  try {
    DevicePass(*device, source, target, std::move(runtime)).run();
  } catch (const Error& error) {
    if (error.status() == Status::kNoMemory) return false;  // that of the device
    throw;
  }
  count_pass(static_cast<std::uint32_t>(expression.operators.size()));
  opencl_passes.fetch_add(1, std::memory_order_relaxed);
  return true;
}

std::uint64_t opencl_passes_run() { return opencl_passes.load(std::memory_order_relaxed); }

}  // namespace array

void use_opencl(std::shared_ptr<OpenClDevice> device, std::int64_t elements_min) {
  if (elements_min < 1) throw Error(Status::kInvalid, "use_opencl: elements_min is at least 1");
  array::InUse& in_use = array::in_use();
  const std::lock_guard lock(in_use.mutex);
  in_use.device.swap(device);
  in_use.elements_min = elements_min;
}

}  // namespace ebb
