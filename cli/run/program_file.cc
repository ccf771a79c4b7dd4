// See program_file.h.
#include "run/program_file.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "drivers/linux/system/system_files.h"

namespace ebb::cli {
namespace {

constexpr std::size_t kHeadBytes = 256;  // of a script, its first line as far as the kernel reads it
constexpr int kScriptsMax = 4;           // an interpreter may be a script, too

// As execvp() finds it; empty if it does not.
std::string path_of(const std::string& command) {
  if (command.find('/') != std::string::npos) return command;
  const char* const all = std::getenv("PATH");
  std::string_view rest = all == nullptr ? "/bin:/usr/bin" : all;
  for (;;) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::string path = (std::filesystem::path(rest.substr(0, end)) / command).string();
    struct stat status {};
    if (::access(path.c_str(), X_OK) == 0 && ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode)) return path;
    if (end == rest.size()) return {};
    rest.remove_prefix(end + 1);
  }
}

// The interpreter that a script names, or nothing.
std::string interpreter_of(std::string_view head) {
  if (head.substr(0, 2) != "#!") return {};
  head = head.substr(2, head.find('\n') - 2);
  const std::size_t begin = std::min(head.find_first_not_of(" \t"), head.size());
  return std::string(head.substr(begin, head.find_first_of(" \t", begin) - begin));
}

// A program of this machine that names no loader. (The loader itself names none either.)
bool is_static(int fd, const ElfW(Ehdr) & header, const std::string& path) {
  const unsigned char own_class = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  const bool elf = std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == own_class;
  if (!elf || header.e_phentsize != sizeof(ElfW(Phdr)) || header.e_phnum == 0) return false;
  if (std::filesystem::path(path).filename().string().rfind("ld", 0) == 0 && header.e_type == ET_DYN) return false;
  std::vector<ElfW(Phdr)> parts(header.e_phnum);
  const std::size_t bytes = parts.size() * sizeof parts[0];
  if (::pread(fd, parts.data(), bytes, static_cast<off_t>(header.e_phoff)) != static_cast<ssize_t>(bytes)) return false;
  return std::none_of(parts.begin(), parts.end(), [](const auto& part) { return part.p_type == PT_INTERP; });
}

// Started with rights that who starts it has not: such a program loads nothing that LD_PRELOAD names.
bool gains_rights(int fd) {
  struct stat status {};
  struct statvfs system {};
  if (::fstat(fd, &status) != 0 || ::fstatvfs(fd, &system) != 0 || (system.f_flag & ST_NOSUID) != 0) return false;
  const bool user = (status.st_mode & S_ISUID) != 0 && status.st_uid != ::getuid();
  const bool group = (status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0 && status.st_gid != ::getgid();
  const bool capable = ::getuid() != 0 && ::fgetxattr(fd, "security.capability", nullptr, 0) > 0;
  return user || group || capable;
}

}  // namespace

std::string why_not_loaded(const std::string& command) {
  std::string path = path_of(command);
  for (int scripts = 0; scripts < kScriptsMax && !path.empty(); ++scripts) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    alignas(ElfW(Ehdr)) std::array<char, kHeadBytes> head{};
    if (!file.valid()) return {};
    const ssize_t length = ::pread(file.get(), head.data(), head.size(), 0);
    if (length <= 0) return {};
    if (const std::string next = interpreter_of({head.data(), static_cast<std::size_t>(length)}); !next.empty()) {
      path = next;
      continue;
    }
    ElfW(Ehdr) header{};
    std::memcpy(&header, head.data(), sizeof header);
    if (gains_rights(file.get())) return fmt::format("'{}' is set-uid, or has rights of its own", path);
    if (is_static(file.get(), header, path)) return fmt::format("'{}' is linked statically", path);
    return {};
  }
  return {};
}

}  // namespace ebb::cli
