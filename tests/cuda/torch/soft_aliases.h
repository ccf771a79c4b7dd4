// Aliases: tensors of the CPU that stand for tensors of the soft device, over the same memory, while a CPU kernel runs;
// and what becomes of them afterwards.
//
// Lives for one kernel; its thread only.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <unordered_map>
#include <vector>

#include "soft/soft_driver.h"

namespace ebb::soft_device {

class Aliases {
 public:
  // The argument for the CPU kernel; `written`: the kernel may write to it.
  c10::IValue argument(const c10::IValue& value, bool written);
  // What the kernel touches.
  const std::vector<soft::Touch>& touches() const { return touches_; }
  // Gives tensors that the kernel has resized their new shapes, and new memory.
  void take_over_shapes();
  // The result for the caller: the tensor that was given, a view of it, or a copy on the device.
  c10::IValue result(const c10::IValue& value);

 private:
  struct Pair {
    at::Tensor device;
    at::Tensor cpu;
  };
  at::Tensor alias(const at::Tensor& tensor, bool written);
  at::Tensor result_of(const at::Tensor& tensor);

  std::vector<Pair> pairs_;
  std::unordered_map<c10::StorageImpl*, c10::Storage> cpu_;     // by the device's
  std::unordered_map<c10::StorageImpl*, c10::Storage> device_;  // by the CPU's
  std::vector<soft::Touch> touches_;
};

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, caffe2::TypeMeta type);

}  // namespace ebb::soft_device
