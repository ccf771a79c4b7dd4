// Which OpenCL devices there are, and which way memory of a process reaches them.
#include <fmt/format.h>

#include <cstdlib>

#include "doctor/check.h"
#include "ebb/opencl/device.h"
#include "ebb/units.h"
#include "run/scratch_directory.h"

namespace ebb::cli {
namespace {

const char* explain(OpenClPath path) {
  switch (path) {
    case OpenClPath::kSystemSvm: return "works on pointers of the process (system SVM)";
    case OpenClPath::kHostPointer: return "uses memory where it is (CL_MEM_USE_HOST_PTR)";
    default: return "gets copies";
  }
}

std::string describe(const OpenClDeviceInfo& info) {
  std::string text = fmt::format("{} ({}): {}", info.name, info.platform, explain(info.path));
  if (info.path != OpenClPath::kSystemSvm && (info.svm_fine_buffer || info.svm_coarse_buffer)) {
    text += fmt::format("; SVM for {}-grained buffers only", info.svm_fine_buffer ? "fine" : "coarse");
  }
  if (!info.has_f64) text += "; no f64";
  if (!info.exact_f32 || !info.exact_divide) text += "; rounds f32 unlike the CPU, so arrays keep to that";
  return text;
}

nlohmann::ordered_json details_of(const OpenClDeviceInfo& info) {
  return {{"name", info.name},
          {"platform", info.platform},
          {"version", info.version},
          {"cpu", info.is_cpu},
          {"path", name(info.path)},
          {"unified_memory", info.unified_memory},
          {"svm_coarse_buffer", info.svm_coarse_buffer},
          {"svm_fine_buffer", info.svm_fine_buffer},
          {"svm_fine_system", info.svm_fine_system},
          {"f64", info.has_f64},
          {"exact_f32", info.exact_f32},
          {"exact_divide", info.exact_divide},
          {"memory_bytes", info.memory_bytes},
          {"buffer_bytes_max", info.buffer_bytes_max},
          {"alignment_bytes", info.alignment_bytes},
          {"compute_units", info.compute_units}};
}

}  // namespace

// Nothing needs OpenCL: its absence is no fault of the machine.
Check check_opencl() {
  Check check{"opencl", "OpenCL", Verdict::kGood, "", "", {}};
  // PoCL makes a cache when its devices are asked for: not in the user's home, because we only look. This process is
  // the check's own.
  const ScratchDirectory scratch;
  ::setenv("POCL_CACHE_DIR", scratch.file(".").c_str(), 1);
  auto devices = nlohmann::ordered_json::array();
  try {
    for (const OpenClDeviceInfo& info : opencl_devices()) {
      check.found += (check.found.empty() ? "" : "; ") + describe(info);
      devices.push_back(details_of(info));
    }
  } catch (const Error& error) {
    if (error.status() != Status::kUnsupported) throw;
    check.found = "no device; none is needed";
    check.details["reason"] = error.what();
  }
  check.details["devices"] = std::move(devices);
  return check;
}

}  // namespace ebb::cli
