// The options that describe a machine, shared by the commands that work on a trace: memories as sizes, links as rates.
// Left out, they are those of the machine that the trace was recorded on, or, where it does not say, of the A100
// machine of the G10 paper (plan/machine.h). Stateless; any thread.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "plan/machine.h"
#include "plan/trace.h"

namespace ebb::cli {

// As the user wrote them; empty: not given.
struct MachineArguments {
  std::string device_memory;
  std::string host_memory;
  std::string pcie;
  std::string flash_read;
  std::string flash_write;
  std::string flash_total;
};

void add_machine_options(CLI::App& command, MachineArguments& arguments);

// Throws Error that names the option.
Machine machine_of(const MachineArguments& arguments, const Trace::Origin& origin = {});

// What each of so many processes has that share the drive equally.
Machine with_part_of_flash(Machine machine, std::uint32_t processes);

// "40 GiB device memory, 128 GiB host memory, 15.8 GB/s to the device, flash reads 3.2 GB/s and writes 3.2 GB/s".
std::string describe(const Machine& machine);
// The same, in bytes and bytes a second, for machines.
nlohmann::ordered_json to_json(const Machine& machine);

}  // namespace ebb::cli
