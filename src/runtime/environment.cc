// Options from EBB_* variables.
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>

#include "ebb/options.h"
#include "ebb/status.h"
#include "ebb/units.h"
#include "rivals/policies.h"
#include "runtime/passes/pass_store.h"

namespace ebb {
namespace {

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

// What parse() says of the value is said of the variable.
template <typename Parse>
void read_parsed(const char* name, Parse&& parse) {
  const char* text = variable(name);
  if (text == nullptr) return;
  try {
    parse(text);
  } catch (const Error& error) {
    throw Error(Status::kInvalid, std::string(name) + ": " + error.what());
  }
}

void read_size(const char* name, std::uint64_t& size) {
  read_parsed(name, [&size](const char* text) { size = parse_size(text); });
}

void read_text(const char* name, std::string& text) {
  if (const char* value = variable(name); value != nullptr) text = value;
}

// A number that must not be negative.
void read_number(const char* name, int& number) {
  const char* text = variable(name);
  if (text == nullptr) return;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  if (error != std::errc() || stop != end || number < 0) {
    throw Error(Status::kInvalid, std::string(name) + ": '" + text + "' is not a number from 0 on");
  }
}

// "2/8": the third of eight.
void read_rank(Options& options) {
  const char* const text = variable("EBB_RANK");
  if (text == nullptr) return;
  int rank = -1;
  int ranks = 0;
  const char* const end = text + std::strlen(text);
  const auto [slash, error] = std::from_chars(text, end, rank);
  const bool number = error == std::errc() && slash != end && *slash == '/';
  const bool all = number && std::from_chars(slash + 1, end, ranks).ptr == end && 0 <= rank && rank < ranks;
  if (!all) throw Error(Status::kInvalid, std::string("EBB_RANK: '") + text + "' is no RANK/RANKS, such as 0/2");
  options.job_rank = rank;
  options.job_ranks = ranks;
}

void read_iterations(const char* name, std::uint32_t& iterations) {
  if (variable(name) == nullptr) return;
  int number = 0;
  read_number(name, number);
  if (number == 0) throw Error(Status::kInvalid, std::string(name) + ": at least 1");
  iterations = static_cast<std::uint32_t>(number);
}

void read_switch(const char* name, bool& on) {
  const char* text = variable(name);
  if (text == nullptr) return;
  const std::string_view word = text;
  if (word != "0" && word != "1") {
    throw Error(Status::kInvalid, std::string(name) + ": '" + text + "' is neither 0 nor 1");
  }
  on = word == "1";
}

// Refuses any text but one of these, and names the variable that has it.
template <typename Choices>
void read_choice(const char* name, std::string& text, const Choices& choices) {
  const char* value = variable(name);
  if (value == nullptr) return;
  std::string list;
  for (const std::string_view choice : choices) {
    if (choice == value) {
      text = value;
      return;
    }
    list += (list.empty() ? "" : ", ") + std::string(choice);
  }
  throw Error(Status::kInvalid, std::string(name) + ": '" + value + "' is unknown; choose one of " + list);
}

}  // namespace

void parse_flash(const std::string& text, Options& options) {
  // The last colon separates a size only if a digit follows: directories may hold colons.
  const std::size_t colon = text.rfind(':');
  const bool sized = colon != std::string::npos && colon + 1 < text.size() && text[colon + 1] >= '0' &&
                     text[colon + 1] <= '9' && text.find('/', colon) == std::string::npos;
  options.flash = sized ? text.substr(0, colon) : text;
  if (sized) options.flash_bytes = parse_size(text.substr(colon + 1));
  if (options.flash.empty())
    throw Error(Status::kInvalid, "flash '" + text + "' names no directory; write DIR or DIR:SIZE");
}

Options options_from_environment() {
  Options options;
  if (const char* const memory = variable("EBB_MEMORY"); memory != nullptr && std::string_view(memory) == "auto") {
    throw Error(Status::kInvalid,
                "EBB_MEMORY: only a job's budget follows what other programs leave: start the program "
                "with `ebb run --memory auto -- PROGRAM`, or give a size");
  }
  read_size("EBB_MEMORY", options.memory);
  read_size("EBB_MEMORY_MAX", options.memory_max);
  read_size("EBB_BLOCK", options.block_bytes);
  if (variable("EBB_BLOCK") != nullptr && (options.block_bytes & (options.block_bytes - 1)) != 0) {
    throw Error(Status::kInvalid,
                "EBB_BLOCK: " + format_size(options.block_bytes) + " is not a power of two; 2MiB is one");
  }
  read_size("EBB_MANAGED_MIN", options.managed_bytes_min);
  read_switch("EBB_MAP_FILES", options.map_files);
  read_choice("EBB_POLICY", options.policy, all_policy_names());
  bool remember = true;
  read_switch("EBB_REMEMBER", remember);
  if (remember) options.passes = default_pass_directory();
  read_text("EBB_STATS", options.stats_path);
  read_text("EBB_JOB", options.job);
  read_rank(options);
  read_text("EBB_RECORD", options.record);
  read_iterations("EBB_RECORD_ITERATIONS", options.record_iterations);
  read_text("EBB_GUIDE", options.guide);
  read_choice("EBB_MEMORY_DRIVER", options.memory_driver, std::array<std::string_view, 3>{"auto", "move", "remap"});
  read_choice("EBB_FLASH_DRIVER", options.flash_driver, std::array<std::string_view, 3>{"auto", "uring", "threads"});
  read_switch("EBB_ENCRYPT", options.encrypt);
  read_choice("EBB_VERIFY", options.verify, std::array<std::string_view, 2>{"digest", "content"});
  read_switch("EBB_CORE_DUMPS", options.core_dumps);
  read_size("EBB_DEVICE_MEMORY", options.device_memory);
  read_number("EBB_DEVICE", options.device);
  read_switch("EBB_DEVICE_STRICT", options.device_strict);
  read_switch("EBB_DEVICE_NOTES", options.device_notes);
  read_text("EBB_CUDA_LIBRARY", options.cuda_library);
  read_text("EBB_NVRTC_LIBRARY", options.nvrtc_library);
  read_text("EBB_CUBLAS_LIBRARY", options.cublas_library);
  read_parsed("EBB_FLASH", [&options](const char* text) { parse_flash(text, options); });
  return options;
}

}  // namespace ebb
