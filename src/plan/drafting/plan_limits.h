// PlanLimits: what the planner needs to know of the machine. Plain values.
#pragma once

#include <cstdint>

namespace ebb {

struct PlanLimits {
  std::uint64_t block_bytes = 0;
  std::uint32_t frames = 0;             // that tensors may occupy, besides those
  std::uint32_t frames_in_transit = 0;  // of blocks that leave or come
  std::uint32_t host_blocks = 0;        // 0: no host tier
  double host_in_ns = 0;                // to bring one block from host memory; to send one there takes as long
  bool clean_host = true;               // what leaves for host memory with a good copy there needs no write
  double flash_in_ns = 0;
  double flash_out_ns = 0;   // 0: as long as to bring one
  double flash_both_ns = 0;  // what one block, whichever way, takes of both lanes together; 0: they do not share
  double toll_ns = 0;        // that launches take longer for each block that is moved beside them
};

}  // namespace ebb
