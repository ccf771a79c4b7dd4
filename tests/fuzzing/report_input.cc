// libFuzzer: any bytes as the report of a run, as data or as a page. Refused with an Error, or told in words.
#include <fcntl.h>

#include "cli/run/report/report_command.h"
#include "ebb/status.h"
#include "input_file.h"

// What it tells is for nobody; libFuzzer itself speaks on stderr.
extern "C" int LLVMFuzzerInitialize(int* /*count*/, char*** /*arguments*/) {
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  return nowhere < 0 || ::dup2(nowhere, STDOUT_FILENO) < 0 ? 1 : 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ebb::fuzzing::InputFile file(data, size);
  ebb::cli::ReportArguments arguments;
  arguments.file = file.path();
  try {
    ebb::cli::show_report(arguments);
  } catch (const ebb::Error&) {
  }
  return 0;
}
