// Whether GPUDirect Storage works: cuFile (libcufile) opened, asked what it can do, and closed. Nothing else here uses
// it.
//
// cuFile starts threads and may hang with a broken driver: for a process of its own.
#pragma once

#include <string>

#include "ebb/status.h"

namespace ebb::cuda {

struct CufileFacts {
  unsigned driver_major = 0, driver_minor = 0;  // of the kernel's nvidia-fs; 0.0: there is none
  bool nvme = false;                            // what nvidia-fs can read from directly
  bool nvme_p2p = false;                        // the same without nvidia-fs, by the kernel's peer-to-peer DMA
  bool compatible = false;                      // else it reads by way of host memory
};

// `library` empty: what the loader finds. kUnsupported with a sentence in `reason`: not installed. kIoError: it does
// not start.
Status probe_cufile(const std::string& library, CufileFacts& facts, std::string& reason);

}  // namespace ebb::cuda
