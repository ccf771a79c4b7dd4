// What the kernel allows the memory driver: its version, the rung of userfaultfd, moving frames, huge pages, mappings.
// The driver's own code opens the userfaultfd, so what is reported is what a program will get.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "doctor/check.h"
#include "drivers/linux/system/system_files.h"
#include "drivers/linux/userfault/userfault.h"
#include "ebb/status.h"
#include "ebb/units.h"
#include "run/preload.h"

namespace ebb::cli {
namespace {

// One mapping per block and twice that while blocks move: what 100 GiB in blocks of 2 MiB take, with room to spare.
constexpr long kMapCountWanted = 262144;

struct FaultSource {
  Userfault userfault;
  int error = 0;  // why there is none
};

FaultSource open_fault_source() {
  FaultSource source;
  if (Userfault::open(source.userfault) != Status::kOk) source.error = errno;
  return source;
}

}  // namespace

Check check_kernel() {
  utsname system{};
  ::uname(&system);
  int major = 0;
  int minor = 0;
  std::sscanf(system.release, "%d.%d", &major, &minor);
  Check check{"kernel", "kernel", Verdict::kGood, fmt::format("{} {}", system.sysname, system.release), "", {}};
  check.details = {{"release", system.release}, {"machine", system.machine}};
  if (major < 6 || (major == 6 && minor < 8)) {
    check.verdict = Verdict::kWarning;
    check.remedy = "from Linux 6.8 on blocks change place without a copy (UFFDIO_MOVE)";
  }
  return check;
}

Check check_userfaultfd() {
  const FaultSource source = open_fault_source();
  Check check{"userfaultfd", "userfaultfd", Verdict::kWarning, "", "", {}};
  check.remedy =
      "run as root, or grant CAP_SYS_PTRACE, or give access to /dev/userfaultfd, or set sysctl "
      "vm.unprivileged_userfaultfd=1; in a container also allow the call in its seccomp profile";
  switch (source.userfault.rung()) {
    case Userfault::Rung::kFull:
      check.verdict = Verdict::kGood;
      check.details["rung"] = "A";
      check.found = "rung A: every touch of absent memory waits for it, also by the kernel";
      check.remedy.clear();
      break;
    case Userfault::Rung::kUserModeOnly:
      check.details["rung"] = "B";
      check.found = "rung B: touches of absent memory wait for it, those by the kernel do not (system calls, below)";
      break;
    case Userfault::Rung::kNone:
      check.details["rung"] = "C";
      check.found = fmt::format("rung C: not to be had here ({})", std::strerror(source.error));
      break;
  }
  return check;
}

Check check_system_calls() {
  Check check{"system_calls", "system calls", Verdict::kGood, "", "", {}};
  const bool waits = open_fault_source().userfault.rung() == Userfault::Rung::kFull;
  const std::string library = calls_library();
  check.details = {{"waits", waits}, {"library", library}};
  if (waits) {
    check.found = "on absent memory they wait for it";
  } else if (!library.empty()) {
    check.found =
        "on absent memory they are completed by libebb_calls.so, which `ebb run` loads. What goes past the C library "
        "still fails with EFAULT: io_uring, Linux AIO and raw system calls of the program's own, programs in Go, "
        "static "
        "and set-uid programs (docs/system-calls.md)";
  } else {
    check.verdict = Verdict::kWarning;
    check.found = "on absent memory they fail with EFAULT, as in saving a model: libebb_calls.so is missing";
    check.remedy = "reinstall, under a path without spaces and colons: LD_PRELOAD cannot name others";
  }
  return check;
}

Check check_frame_moves() {
  const FaultSource source = open_fault_source();
  Check check{"uffdio_move", "UFFDIO_MOVE", Verdict::kGood, "available: blocks change place without a copy", "", {}};
  check.details = {{"available", source.userfault.can_move()}, {"poison", source.userfault.can_poison()}};
  if (source.userfault.can_move()) return check;
  check.verdict = Verdict::kWarning;
  check.found = "not available";
  check.remedy = "it takes Linux 6.8 or newer, and userfaultfd as above";
  return check;
}

Check check_huge_pages() {
  const std::string text = read_line("/sys/kernel/mm/transparent_hugepage/enabled").value_or("");
  const std::size_t begin = text.find('[');
  const std::size_t end = text.find(']');
  const bool known = begin != std::string::npos && end != std::string::npos && begin < end;
  const std::string mode = known ? text.substr(begin + 1, end - begin - 1) : "not available";
  Check check{"huge_pages", "huge pages", Verdict::kGood, fmt::format("transparent huge pages: {}", mode), "", {}};
  check.details["mode"] = mode;
  if (mode != "always" && mode != "madvise") {
    check.verdict = Verdict::kWarning;
    check.remedy = "works, more slowly: as root, write madvise to /sys/kernel/mm/transparent_hugepage/enabled";
  }
  return check;
}

Check check_map_count() {
  const std::string text = read_line("/proc/sys/vm/max_map_count").value_or("0");
  const long count = std::strtol(text.c_str(), nullptr, 10);
  Check check{"max_map_count", "memory mappings", Verdict::kGood, "", "", {}};
  check.found = fmt::format("vm.max_map_count = {}", count);
  check.details["value"] = count;
  if (open_fault_source().userfault.can_move()) {
    check.found += ", enough: moving blocks takes one mapping in all";
  } else if (count < kMapCountWanted) {
    check.verdict = Verdict::kWarning;
    check.found += ", and without UFFDIO_MOVE each block takes one";
    check.remedy = fmt::format("for models beyond some 60 GiB: sysctl vm.max_map_count={}", kMapCountWanted);
  }
  return check;
}

Check check_locked_memory() {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string text = limit.rlim_cur == RLIM_INFINITY ? "unlimited" : format_size(limit.rlim_cur);
  Check check{"memlock", "locked memory", Verdict::kGood, fmt::format("limit {}; none is needed", text), "", {}};
  return check;
}

}  // namespace ebb::cli
