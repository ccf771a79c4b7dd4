// Machine: the memories and links that a plan, a lower bound or a simulated run is made for. Plain values; the defaults
// are the A100 machine of the G10 paper (Zhang et al., MICRO 2023, table 2).
//
//   device memory <== device link, each direction ==> host memory
//                 <== device link, each direction ==> flash
//
// Invariant that every user of it keeps: traffic with flash passes the device link too, so that in each direction
// flash and host traffic together never exceed the bandwidth of the device link.
#pragma once

#include <cstdint>

namespace ebb {

// The device link where the device tier is main memory: nothing crosses one.
inline constexpr double kMemoryBps = 1e15;

struct Machine {
  std::uint64_t device_bytes = 40ull << 30;
  std::uint64_t host_bytes = 128ull << 30;  // 0: no host tier

  // Bytes a second (1 GB/s = 1e9). The device link, PCIe in the paper, has this much in each direction at once, and so
  // does host memory behind it.
  double device_link_bps = 15.754e9;
  double flash_read_bps = 3.2e9;   // 0: nothing can come back from flash
  double flash_write_bps = 3.2e9;  // 0: no flash tier
  // What reads and writes of flash have together, where that is less than their sum, as on most disks of virtual
  // machines; 0: no such limit.
  double flash_total_bps = 0;
  // The same while a kernel runs, where that and the thread that moves blocks want one processor; 0: no difference.
  double busy_read_bps = 0;
  double busy_write_bps = 0;
  double busy_total_bps = 0;

  // What one transfer and one page fault cost besides bytes and kernel time, in nanoseconds.
  std::uint64_t link_latency_ns = 0;
  std::uint64_t flash_latency_ns = 0;
  std::uint64_t fault_ns = 0;
  // What the host takes to launch a kernel, while the device works on those before; and, after one whose end it waits
  // for, until it goes on.
  std::uint64_t launch_host_ns = 0;
  std::uint64_t sync_host_ns = 0;
  // Where kernels keep all processors busy, whoever moves takes time of theirs: bytes moved for each second by which
  // kernels take longer; 0: none.
  double toll_bps = 0;

  bool has_host() const { return host_bytes > 0 && device_link_bps > 0; }
  bool has_flash() const { return flash_read_bps > 0 && flash_write_bps > 0 && device_link_bps > 0; }
};

}  // namespace ebb
