// See trace.h.
#include "plan/trace.h"

#include <algorithm>

namespace ebb {
namespace {

std::string tensor_text(const Trace& trace, std::uint32_t tensor) {
  return "tensor " + std::to_string(trace.tensors[tensor].id);
}

std::string check_sizes(const Trace& trace) {
  std::size_t lines = trace.tensors.size() + trace.launches.size() + trace.steps.size() + 1;
  for (const Trace::Tensor& tensor : trace.tensors) {
    lines += (tensor.allocated_before != Trace::kNone ? 1 : 0) + (tensor.freed_before != Trace::kNone ? 1 : 0);
  }
  if (lines > Trace::kLinesMax) return "more than " + std::to_string(Trace::kLinesMax) + " lines";
  if (trace.uses.size() > Trace::kUsesMax) return "more than " + std::to_string(Trace::kUsesMax) + " uses";
  if (trace.batch > Trace::kHeaderMax) return "a batch above 2^56";
  const Trace::Origin& origin = trace.origin;
  for (const std::uint64_t value :
       {origin.device_bytes, origin.host_bytes, origin.device_link_bps, origin.flash_read_bps, origin.flash_write_bps,
        origin.flash_total_bps, origin.launch_host_ns, origin.sync_host_ns}) {
    if (value != Trace::kUnknown && value > Trace::kHeaderMax) return "a machine of more than 2^56 bytes a second";
  }
  std::uint64_t bytes = 0;
  for (const Trace::Tensor& tensor : trace.tensors) {
    if (tensor.bytes > Trace::kTotalMax - bytes) return "tensors of more than 2^62 bytes together";
    bytes += tensor.bytes;
  }
  std::uint64_t ns = 0;
  for (const Trace::Launch& launch : trace.launches) {
    const std::uint64_t more = launch.ns == Trace::kUnknown ? 0 : launch.ns;
    if (more > Trace::kTotalMax - ns) return "launches of more than 2^62 ns together";
    ns += more;
  }
  return "";
}

std::string check_tensors(const Trace& trace) {
  std::vector<std::uint32_t> ids;
  ids.reserve(trace.tensors.size());
  const std::size_t launches = trace.launches.size();
  for (std::uint32_t i = 0; i < trace.tensors.size(); ++i) {
    const Trace::Tensor& tensor = trace.tensors[i];
    ids.push_back(tensor.id);
    const bool allocated = tensor.allocated_before != Trace::kNone;
    const bool freed = tensor.freed_before != Trace::kNone;
    if (static_cast<std::uint8_t>(tensor.kind) >= kTraceKinds) return tensor_text(trace, i) + " is of no known kind";
    if (tensor.bytes > Trace::kBytesMax) return tensor_text(trace, i) + " has more than 2^56 bytes";
    if (tensor.persistent && allocated) return tensor_text(trace, i) + " is persistent and allocated";
    if (tensor.persistent && freed) return tensor_text(trace, i) + " is persistent and freed";
    if (tensor.mapped && !tensor.persistent) return tensor_text(trace, i) + " is mapped and not persistent";
    if (tensor.continues && (i == 0 || !tensor.lives_as(trace.tensors[i - 1]))) {
      return tensor_text(trace, i) + " is not there as long as the piece before it";
    }
    if (allocated && tensor.allocated_before > launches) return tensor_text(trace, i) + " is allocated after the end";
    if (freed && tensor.freed_before > launches) return tensor_text(trace, i) + " is freed after the end";
    if (allocated && freed && tensor.freed_before < tensor.allocated_before) {
      return tensor_text(trace, i) + " is freed before it is allocated";
    }
  }
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  return twice == ids.end() ? "" : "two tensors have the id " + std::to_string(*twice);
}

std::string check_launch(const Trace& trace, std::uint32_t index) {
  const Trace::Launch& launch = trace.launches[index];
  const std::string text = "launch " + std::to_string(index);
  if (launch.op >= trace.ops.size()) return text + " has no operator";
  if (launch.ns != Trace::kUnknown && launch.ns > Trace::kNsMax) return text + " takes more than 2^56 ns";
  const std::uint64_t count = std::uint64_t{launch.reads} + launch.writes;
  if (launch.first_use > trace.uses.size() || count > trace.uses.size() - launch.first_use) {
    return text + " has uses that are not there";
  }
  for (const Trace::TensorIndex use : trace.touched(launch)) {
    if (use >= trace.tensors.size()) return text + " uses a tensor that is not there";
    const Trace::Tensor& tensor = trace.tensors[use];
    if (tensor.allocated_before != Trace::kNone && tensor.allocated_before > index) {
      return text + " uses " + tensor_text(trace, use) + " before it is allocated";
    }
    if (tensor.freed_before <= index) return text + " uses " + tensor_text(trace, use) + " after it was freed";
  }
  return "";
}

// A tensor is born by `alloc` or at its first launch; what was never born cannot be freed.
std::string check_births(const Trace& trace) {
  std::vector<bool> born(trace.tensors.size());
  for (const Trace::TensorIndex use : trace.uses) {
    if (use < born.size()) born[use] = true;
  }
  for (std::uint32_t i = 0; i < trace.tensors.size(); ++i) {
    const Trace::Tensor& tensor = trace.tensors[i];
    if (tensor.freed_before != Trace::kNone && tensor.allocated_before == Trace::kNone && !born[i]) {
      return tensor_text(trace, i) + " is freed but neither allocated nor used";
    }
  }
  return "";
}

std::string check_steps(const Trace& trace) {
  std::uint32_t previous = 0;
  for (const Trace::LaunchIndex step : trace.steps) {
    if (step > trace.launches.size()) return "an iteration ends after the last launch";
    if (step <= previous) return "an iteration without launches ends before launch " + std::to_string(step);
    previous = step;
  }
  if (trace.sequence && previous != trace.launches.size()) return "the last launches of a sequence are in no iteration";
  return "";
}

}  // namespace

const char* name(Trace::Kind kind) {
  switch (kind) {
    case Trace::Kind::kWeight: return "weight";
    case Trace::Kind::kGradient: return "gradient";
    case Trace::Kind::kOptimizer: return "optimizer";
    case Trace::Kind::kInput: return "input";
    case Trace::Kind::kActivation: return "activation";
    case Trace::Kind::kWorkspace: return "workspace";
    case Trace::Kind::kOther: return "other";
  }
  return "";
}

std::string check(const Trace& trace) {
  if (std::string wrong = check_sizes(trace); !wrong.empty()) return wrong;
  if (std::string wrong = check_tensors(trace); !wrong.empty()) return wrong;
  for (std::uint32_t i = 0; i < trace.launches.size(); ++i) {
    if (std::string wrong = check_launch(trace, i); !wrong.empty()) return wrong;
  }
  if (std::string wrong = check_births(trace); !wrong.empty()) return wrong;
  return check_steps(trace);
}

}  // namespace ebb
