// See flash_directory.h. File systems are told apart by the magic numbers of statfs, which need no privilege and
// follow the directory wherever it is mounted.
#include "flash_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/vfs.h>

#include <array>
#include <filesystem>

#include "drivers/linux/flash/flash_file.h"
#include "drivers/linux/system/system_files.h"
#include "ebb/status.h"

namespace ebb::cli {
namespace {

enum class Kind { kDisk, kMemory, kNetwork };

struct FileSystem {
  std::uint32_t magic;
  const char* name;
  Kind kind;
};

constexpr std::array<FileSystem, 17> kFileSystems{{{0x01021994, "tmpfs", Kind::kMemory},
                                                   {0x858458f6, "ramfs", Kind::kMemory},
                                                   {0x958458f6, "hugetlbfs", Kind::kMemory},
                                                   {0x0000ef53, "ext4", Kind::kDisk},
                                                   {0x58465342, "xfs", Kind::kDisk},
                                                   {0x9123683e, "btrfs", Kind::kDisk},
                                                   {0xf2f52010, "f2fs", Kind::kDisk},
                                                   {0x2fc12fc1, "zfs", Kind::kDisk},
                                                   {0xca451a4e, "bcachefs", Kind::kDisk},
                                                   {0x794c7630, "overlayfs", Kind::kDisk},
                                                   {0x65735546, "fuse", Kind::kDisk},
                                                   {0x00006969, "nfs", Kind::kNetwork},
                                                   {0xff534d42, "cifs", Kind::kNetwork},
                                                   {0xfe534d42, "smb", Kind::kNetwork},
                                                   {0x01021997, "9p", Kind::kNetwork},
                                                   {0x00c36400, "ceph", Kind::kNetwork},
                                                   {0x0bd00bd0, "lustre", Kind::kNetwork}}};

void identify(FlashFacts& facts) {
  struct statfs info {};
  if (::statfs(facts.directory.c_str(), &info) != 0) {
    facts.file_system = "unknown";
    return;
  }
  const auto magic = static_cast<std::uint32_t>(info.f_type);
  facts.free_bytes = static_cast<std::uint64_t>(info.f_bavail) * static_cast<std::uint64_t>(info.f_bsize);
  facts.file_system = fmt::format("file system 0x{:x}", magic);
  for (const FileSystem& known : kFileSystems) {
    if (known.magic != magic) continue;
    facts.file_system = known.name;
    facts.ram_disk = known.kind == Kind::kMemory;
    facts.on_network = known.kind == Kind::kNetwork;
  }
}

}  // namespace

FlashFacts inspect_flash(const std::string& directory) {
  FlashFacts facts;
  std::error_code failed;
  const auto absolute = std::filesystem::canonical(directory, failed);
  facts.directory = failed ? directory : absolute.string();
  identify(facts);
  const FileDescriptor unnamed(::open(facts.directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  facts.unnamed_files = unnamed.valid();
  try {
    facts.direct_io = FlashFile::open(directory).direct();
  } catch (const Error& error) {
    facts.problem = error.what();
  }
  return facts;
}

}  // namespace ebb::cli
