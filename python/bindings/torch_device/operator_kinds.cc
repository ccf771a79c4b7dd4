// See operator_kinds.h.
#include "bindings/torch_device/operator_kinds.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>

#include "bindings/torch/accesses.h"
#include "bindings/torch/operator_table.h"

namespace ebb::torch_adapter {
namespace {

constinit OperatorTable g_kinds;  // by name and overload

constexpr std::string_view kCollectives = "c10d::";

// Of a peer's that waits for us in its turn, nobody could wait here.
bool is_peer_to_peer(std::string_view name) {
  constexpr std::array<std::string_view, 3> kNames = {"c10d::send", "c10d::recv_", "c10d::recv_any_source_"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool looks_at_nothing(std::string_view name) {
  // It copies what there was by itself when it grows a tensor.
  if (name == "aten::resize_") return false;
  constexpr std::array<std::string_view, 4> kNames = {"aten::record_stream", "aten::set_", "aten::empty",
                                                      "aten::empty_strided"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() || !looks_at_content(op_of(name));
}

// A kernel made of differentiable operators can touch nothing but by calling them.
bool is_made_of_others(const at::RecordFunction& function, c10::DeviceType type) {
  const auto name = function.operator_name();
  const auto found = name.has_value() ? c10::Dispatcher::singleton().findOp(*name) : std::nullopt;
  if (!found.has_value()) return false;
  const c10::DispatchKey backend =
      type == c10::DeviceType::CUDA ? c10::DispatchKey::CUDA : c10::DispatchKey::PrivateUse1;
  return found->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !found->hasKernelForDispatchKey(backend);
}

OperatorKind find_out(const at::RecordFunction& function, c10::DeviceType type) {
  const std::string_view name = function.name();
  if (is_peer_to_peer(name)) return OperatorKind::kRefused;
  if (name.substr(0, kCollectives.size()) == kCollectives) return OperatorKind::kCollective;
  if (is_made_of_others(function, type)) return OperatorKind::kMadeOfOthers;
  return looks_at_nothing(name) ? OperatorKind::kLooksAtNothing : OperatorKind::kStartsKernels;
}

}  // namespace

OperatorKind kind_of(const at::RecordFunction& function, c10::DeviceType type) {
  const std::string_view overload = function.overload_name();
  const std::uint64_t op = op_of(function.name()) ^ (op_of(overload) << 1 | 1);
  return static_cast<OperatorKind>(
      g_kinds.get(op, [&] { return static_cast<std::uint64_t>(find_out(function, type)); }));
}

std::string refusal_of(const std::string& name) {
  return name +
         " of a tensor that Ebbtide manages is not supported: its memory may move before the peer has come. "
         "Send a copy that is not managed (tensor.cpu()), or run without --device-memory";
}

}  // namespace ebb::torch_adapter
