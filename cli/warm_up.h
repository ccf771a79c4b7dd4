// `--warm-up`: how many iterations of a sequence go by before those that count, in which a policy may learn. Shared by
// the commands that work on a trace. Stateless; any thread.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "plan/trace.h"
#include "plan/vitality.h"

namespace ebb::cli {

// `text`: as the user wrote it; empty: not given.
void add_warm_up_option(CLI::App& command, std::string& text);

// 0 for a trace that is no sequence. Throws Error that names the option.
std::uint32_t warm_up_of(const std::string& text, const Trace& trace);

// What the bounds are of: all of a trace, or of a sequence the iterations after the warm-up.
Vitality counted_vitality(const Trace& trace, std::uint32_t warm_up, Dead dead = Dead::kVanishes);

// The iterations that count, for people: "iterations 5 to 16".
std::string counted_iterations(const Trace& trace, std::uint32_t warm_up);

}  // namespace ebb::cli
