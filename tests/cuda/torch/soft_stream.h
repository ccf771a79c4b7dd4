// Streams and work of the soft device. Any thread; PyTorch's current stream is one of each thread's.
#pragma once

#include <c10/core/Stream.h>

#include <functional>
#include <string>
#include <vector>

#include "soft/soft_driver.h"

namespace ebb::soft_device {

inline constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;
inline const c10::Device kDevice{kType, 0};

void* handle_of(c10::Stream stream);
void* current_handle();
// Runs `work`, in this thread, as work of the current stream that touches these bytes: after what the stream was given
// before, and nothing comes after it until it has run. Throws where the device says no: `name` touches what is not
// mapped, or the device is broken.
void run_in_stream(const std::string& name, const std::vector<soft::Touch>& touches, const std::function<void()>& work);
// Waits for all streams; throws if something went wrong there.
void synchronize_device();

}  // namespace ebb::soft_device
