// How the flash tier of a runtime is opened: by Runtime::open, and by DeviceRuntime::open.
#pragma once

#include <memory>
#include <string>

#include "ebb/options.h"
#include "port/raw_flash.h"

namespace ebb {

class FlashFile;

// The flash driver that the options ask for and this machine allows, with room for `depth` requests; `description` says
// which. Throws Error with the remedy.
std::unique_ptr<RawFlash> open_flash(const Options& options, FlashFile file, std::uint32_t depth,
                                     std::string& description);

}  // namespace ebb
