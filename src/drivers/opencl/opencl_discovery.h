// Discovery: the devices of all platforms, and what each is able to.
//
// Values; any thread. A handle of OpenCL's lives as long as the process.
#pragma once

#include <string>
#include <vector>

#include "drivers/opencl/opencl_api.h"
#include "ebb/opencl/device.h"

namespace ebb::opencl {

struct Found {
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  OpenClDeviceInfo info;
};

// In the order of platforms and devices. Throws Error(kUnsupported) where there is none.
std::vector<Found> discover(const Api& api);
// The one that OpenClOptions::device names. Throws Error(kUnsupported) with a list of what there is.
const Found& choose(const std::vector<Found>& found, const std::string& wanted);

}  // namespace ebb::opencl
