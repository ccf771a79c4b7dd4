// See machine_options.h.
#include "machine_options.h"

#include <fmt/format.h>

#include <type_traits>

#include "ebb/status.h"
#include "ebb/units.h"

namespace ebb::cli {
namespace {

template <typename Parse>
std::uint64_t parse_option(const char* option, const std::string& text, Parse parse) {
  try {
    return parse(text);
  } catch (const Error& error) {
    throw Error(error.status(), fmt::format("{}: {}", option, error.what()));
  }
}

std::string rate(double bps) { return fmt::format("{:.4g} GB/s", bps / 1e9); }

Machine machine_of(const Trace::Origin& origin) {
  Machine machine;
  const auto take = [](std::uint64_t known, auto& value) {
    if (known != Trace::kUnknown) value = static_cast<std::remove_reference_t<decltype(value)>>(known);
  };
  take(origin.device_bytes, machine.device_bytes);
  take(origin.host_bytes, machine.host_bytes);
  take(origin.device_link_bps, machine.device_link_bps);
  take(origin.flash_read_bps, machine.flash_read_bps);
  take(origin.flash_write_bps, machine.flash_write_bps);
  take(origin.flash_total_bps, machine.flash_total_bps);
  take(origin.launch_host_ns, machine.launch_host_ns);
  take(origin.sync_host_ns, machine.sync_host_ns);
  return machine;
}

}  // namespace

void add_machine_options(CLI::App& command, MachineArguments& arguments) {
  command
      .add_option("--device-memory", arguments.device_memory, "Memory that launches work on [as recorded, or 40GiB]")
      ->type_name("SIZE");
  command.add_option("--host-memory", arguments.host_memory, "Host memory behind it; 0: none [as recorded, or 128GiB]")
      ->type_name("SIZE");
  command
      .add_option("--pcie", arguments.pcie,
                  "Device link, each direction; host and flash share it [as recorded, or 15.754GB/s]")
      ->type_name("RATE");
  command.add_option("--flash-read", arguments.flash_read, "Flash to device; 0: no flash [as recorded, or 3.2GB/s]")
      ->type_name("RATE");
  command.add_option("--flash-write", arguments.flash_write, "Device to flash; 0: no flash [as recorded, or 3.2GB/s]")
      ->type_name("RATE");
  command
      .add_option("--flash-total", arguments.flash_total,
                  "Flash, both directions together; 0: no such limit [as recorded, or 0]")
      ->type_name("RATE");
}

Machine machine_of(const MachineArguments& arguments, const Trace::Origin& origin) {
  Machine machine = machine_of(origin);
  const auto size = [](const char* option, const std::string& text, std::uint64_t& bytes) {
    if (!text.empty()) bytes = parse_option(option, text, parse_size);
  };
  const auto bandwidth = [](const char* option, const std::string& text, double& bps) {
    if (!text.empty()) bps = static_cast<double>(parse_option(option, text, parse_rate));
  };
  size("--device-memory", arguments.device_memory, machine.device_bytes);
  size("--host-memory", arguments.host_memory, machine.host_bytes);
  bandwidth("--pcie", arguments.pcie, machine.device_link_bps);
  bandwidth("--flash-read", arguments.flash_read, machine.flash_read_bps);
  bandwidth("--flash-write", arguments.flash_write, machine.flash_write_bps);
  bandwidth("--flash-total", arguments.flash_total, machine.flash_total_bps);
  if (machine.device_bytes == 0) throw Error(Status::kInvalid, "--device-memory: must not be 0");
  return machine;
}

Machine with_part_of_flash(Machine machine, std::uint32_t processes) {
  for (double* const bps : {&machine.flash_read_bps, &machine.flash_write_bps, &machine.flash_total_bps,
                            &machine.busy_read_bps, &machine.busy_write_bps, &machine.busy_total_bps}) {
    *bps /= processes;
  }
  return machine;
}

std::string describe(const Machine& machine) {
  std::string text = format_size(machine.device_bytes) + " device memory";
  if (machine.has_host()) text += ", " + format_size(machine.host_bytes) + " host memory";
  text += ", link " + rate(machine.device_link_bps) + " each way";
  if (machine.has_flash()) {
    text += ", flash reads " + rate(machine.flash_read_bps) + ", writes " + rate(machine.flash_write_bps);
    if (machine.flash_total_bps > 0) text += ", both " + rate(machine.flash_total_bps);
  }
  return text;
}

nlohmann::ordered_json to_json(const Machine& machine) {
  return {{"device_bytes", machine.device_bytes},       {"host_bytes", machine.host_bytes},
          {"device_link_bps", machine.device_link_bps}, {"flash_read_bps", machine.flash_read_bps},
          {"flash_write_bps", machine.flash_write_bps}, {"flash_total_bps", machine.flash_total_bps},
          {"launch_host_ns", machine.launch_host_ns},   {"sync_host_ns", machine.sync_host_ns}};
}

}  // namespace ebb::cli
