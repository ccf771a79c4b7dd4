// `ebb doctor`: what this machine allows Ebbtide to do, and how to allow it more. Looks, measures, changes nothing.
// Main thread.
#pragma once

#include <string>

namespace ebb::cli {

struct DoctorArguments {
  std::string flash;  // empty: where `ebb run` would put it
  bool json = false;
  bool quick = false;  // do not measure
};

// 0 when `ebb run` can work here, 1 when something blocks it.
int examine_machine(const DoctorArguments& arguments);

}  // namespace ebb::cli
