// Events of Chrome's trace event format, which Perfetto and chrome://tracing open: what an event is called in it. Times
// are microseconds. Pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace ebb::cli {

double microseconds(std::uint64_t ns);

// Of the one process that there is: `what` is "process_name" or "thread_name".
nlohmann::ordered_json chrome_name(const char* what, int thread, const std::string& name);
nlohmann::ordered_json chrome_slice(const std::string& name, int thread, double ts, double duration);
// Perfetto shows a counter for each of `values`, called `name` and its key.
nlohmann::ordered_json chrome_counter(const char* name, double ts, nlohmann::ordered_json values);

}  // namespace ebb::cli
