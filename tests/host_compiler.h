// HostCompiler: kernels written for a device, compiled for the host with this machine's C++ compiler, for the software
// drivers of the tests.
//
// What was compiled stays in its folder by a hash of the text: tests run as many processes, and compile each kernel
// once. Any thread.
#pragma once

#include <string>
#include <vector>

namespace ebb::test {

struct HostCompiler {
  std::string compiler, folder;

  // The path of a library of `text`, "" if it does not compile; `log` is what the compiler says.
  std::string compile(const std::string& text, const std::vector<std::string>& options, std::string& log) const;
};

std::string read_file(const std::string& path);

}  // namespace ebb::test
