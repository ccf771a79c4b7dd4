// See cufile_probe.h.
#include "drivers/cuda/probe/cufile_probe.h"

#include <cstddef>

#include "drivers/cuda/symbols.h"

namespace ebb::cuda {
namespace {

struct Answer {  // CUfileError_t
  int error;
  int cuda_error;
};

struct Properties {  // CUfileDrvProps_t
  struct {
    unsigned major, minor;
    std::size_t poll_bytes, direct_bytes_max;
    unsigned status, control;  // bits
  } driver;
  unsigned features, device_cache_kib_max, buffer_cache_kib, pinned_kib_max, batch_max, batch_timeout_ms;
  unsigned reserved[32];  // for newer ones
};

constexpr unsigned kNvme = 4;               // CU_FILE_NVME_SUPPORTED
constexpr unsigned kNvmeP2p = 11;           // CU_FILE_NVME_P2P_SUPPORTED
constexpr unsigned kCompatibleAllowed = 1;  // CU_FILE_ALLOW_COMPAT_MODE

struct Cufile {
  Answer (*open)() = nullptr;
  Answer (*close)() = nullptr;
  Answer (*properties)(Properties* properties) = nullptr;
};

}  // namespace

Status probe_cufile(const std::string& library, CufileFacts& facts, std::string& reason) {
  void* const opened = open_library(library, {"libcufile.so.0", "libcufile.so"});
  if (opened == nullptr) {
    reason = "libcufile is not installed";
    return Status::kUnsupported;
  }
  Cufile api;
  Symbols symbols(opened);
  symbols.find(api.open, "cuFileDriverOpen");
  symbols.find(api.close, "cuFileDriverClose");
  symbols.find(api.properties, "cuFileDriverGetProperties");
  if (symbols.missing() != nullptr) {
    reason = "the libcufile found is none: it lacks " + std::string(symbols.missing());
    return Status::kUnsupported;
  }
  const auto refuse = [&](const char* what, Answer answer) {
    reason = std::string(what) + " fails with cuFile error " + std::to_string(answer.error) + ", CUDA error " +
             std::to_string(answer.cuda_error);
    return Status::kIoError;
  };
  if (const Answer answer = api.open(); answer.error != 0) return refuse("cuFileDriverOpen", answer);
  Properties properties{};
  const Answer answer = api.properties(&properties);
  static_cast<void>(api.close());
  if (answer.error != 0) return refuse("cuFileDriverGetProperties", answer);
  facts.driver_major = properties.driver.major;
  facts.driver_minor = properties.driver.minor;
  facts.nvme = (properties.driver.status >> kNvme & 1) != 0;
  facts.nvme_p2p = (properties.driver.status >> kNvmeP2p & 1) != 0;
  facts.compatible = (properties.driver.control >> kCompatibleAllowed & 1) != 0;
  return Status::kOk;
}

}  // namespace ebb::cuda
