// libFuzzer: any bytes as words of a command line, one a line; `t` is a trace that is there. Refused with an Error, or
// read; a command that then does no more than read and print is done.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/run/scratch_directory.h"
#include "ebb/status.h"
#include "trace/writer.h"

namespace {

using ebb::cli::CommandLine;

// The file that `t` stands for; and what commands print goes nowhere.
class Place {
 public:
  Place() : trace_(directory_.file("t")) {
    ebb::TraceWriter writer(trace_, {"two launches", "command line", "", 1});
    writer.tensor(0, 1 << 20, ebb::Trace::Kind::kWeight, true);
    writer.tensor(1, 3 << 20, ebb::Trace::Kind::kActivation, false);
    const std::vector<std::uint32_t> weights{0}, result{1};
    writer.alloc(1);
    writer.launch("forward", weights, result, 1'000'000);
    writer.launch("backward", result, weights, 2'000'000);
    writer.free(1);
    writer.finish();
    const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (::dup2(nowhere, STDIN_FILENO) < 0 || ::dup2(nowhere, STDOUT_FILENO) < 0) std::abort();
    ::close(nowhere);
  }

  const std::string& trace() const { return trace_; }

 private:
  const ebb::cli::ScratchDirectory directory_;
  const std::string trace_;
};

bool only_reads(const CommandLine& line) {
  const CommandLine::Arguments& given = line.arguments();
  const std::string& command = line.command();
  return command == "sim" || command == "completion" || (command == "trace" && given.trace.to.empty()) ||
         (command == "plan" && given.plan.html.empty() && !line.marked()) ||
         (command == "man" && given.man.directory.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Place place;
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    if (words.back() == "t") words.back() = place.trace();
    begin = end + 1;
  }
  try {
    CommandLine line;
    if (!line.read(std::move(words)) && only_reads(line)) static_cast<void>(line.run());
  } catch (const ebb::Error&) {
  }
  return 0;
}
