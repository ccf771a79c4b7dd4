// See safety_settings.h.
#include "run/settings/safety_settings.h"

#include <fmt/format.h>

#include <string>

#include "drivers/linux/flash/libcrypto.h"
#include "ebb/status.h"

namespace ebb::cli {

void add_safety_settings(const RunArguments& arguments, bool on_device, Variables& variables) {
  LibCrypto crypto;
  std::string reason;
  if (arguments.encrypt && LibCrypto::load(crypto, reason) != Status::kOk) throw Error(Status::kUnsupported, reason);
  if (arguments.encrypt) variables.emplace_back("EBB_ENCRYPT", "1");
  if (arguments.no_core_dumps && on_device) {
    throw Error(Status::kInvalid, "--no-core-dumps: not with --device-memory; make none at all instead (ulimit -c 0)");
  }
  if (arguments.no_core_dumps) variables.emplace_back("EBB_CORE_DUMPS", "0");
  if (arguments.verify.empty()) return;
  if (arguments.verify != "digest" && arguments.verify != "content") {
    throw Error(Status::kInvalid, fmt::format("--verify: '{}' is unknown; choose digest or content", arguments.verify));
  }
  if (arguments.verify == "content" && on_device) {
    throw Error(Status::kInvalid, "--verify content: not with --device-memory; leave one of them out");
  }
  variables.emplace_back("EBB_VERIFY", arguments.verify);
}

}  // namespace ebb::cli
