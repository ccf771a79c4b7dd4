// A process group of one for the soft device, whose collectives run in a stream of its own, as NCCL's do: what they do
// to a tensor (they double it, as if there were a twin) happens late, and their Work orders who waits for it.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace ebb::soft_device {

c10::intrusive_ptr<c10d::Backend> make_group(int rank, int size);

}  // namespace ebb::soft_device
