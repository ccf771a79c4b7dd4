// ProcessMap: what the kernel says about the memory of this process at this moment: which mapping an address is in,
// with which permissions, and which of its pages are present. Nothing is remembered: mprotect tells nobody, so an
// answer is asked for at each access.
//
// Any thread. No function but open(), describe() and complaint() allocates. Kernels before 6.11 have no PROCMAP_QUERY
// (then /proc/self/maps is read), those before 6.7 no PAGEMAP_SCAN (then /proc/self/pagemap is).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "drivers/linux/system/system_files.h"
#include "ebb/status.h"

namespace ebb {

struct Mapping {
  enum class Kind : std::uint8_t { kAnonymous, kFile, kSpecial };
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool readable = false;
  bool writable = false;
  bool executable = false;
  bool shared = false;
  Kind kind = Kind::kAnonymous;
  std::size_t page_bytes = 4096;
  char name[96] = {};  // of the file, or [stack] and the like; cut off

  bool private_anonymous() const { return kind == Kind::kAnonymous && !shared; }
};

class ProcessMap {
 public:
  // Categories of a page, as PAGEMAP_SCAN numbers them.
  static constexpr std::uint64_t kFile = 1 << 2, kPresent = 1 << 3, kSwapped = 1 << 4, kZero = 1 << 5, kHuge = 1 << 6;

  // kUnsupported: no /proc.
  static Status open(ProcessMap& map);

  // False: nothing is mapped there.
  bool find(std::uintptr_t address, Mapping& mapping) const;
  // What is mapped there, for messages. Allocates.
  std::string describe(std::uintptr_t address) const;
  // Why a thread that reads, or writes, these bytes would be killed: the first address that cannot be, and what is
  // mapped there. Empty: it would not, at this moment. Allocates when there is something to say.
  std::string complaint(std::uintptr_t begin, std::size_t bytes, bool write) const;
  // Categories of one page.
  std::uint64_t page(std::uintptr_t address) const;
  // Whether the first page is present, and for how many bytes that is so.
  bool present_run(std::uintptr_t begin, std::size_t bytes, std::size_t& run) const;

 private:
  bool past_end_of_file(const Mapping& mapping, std::uintptr_t last) const;
  bool find_in_text(std::uintptr_t address, Mapping& mapping) const;

  FileDescriptor maps_;
  FileDescriptor pagemap_;
};

// Copies between ordinary memory of this process, with every error of the kernel instead of a signal. Returns bytes
// done, or -1 with errno. Where a page is missing in a watched range it waits as any touch by the kernel does.
long read_process(void* to, std::uintptr_t from, std::size_t bytes);
long write_process(std::uintptr_t to, const void* from, std::size_t bytes);

}  // namespace ebb
