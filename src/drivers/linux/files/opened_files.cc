// See opened_files.h.
#include "drivers/linux/files/opened_files.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "calls/table.h"

namespace ebb {
namespace {

std::string link_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

int open_direct(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  return fd < 0 && errno == EINVAL ? ::open(path.c_str(), O_RDONLY | O_CLOEXEC) : fd;
}

// A lease for reading is to be had only where nobody writes. Should somebody begin while we have it, the signal is one
// that is ignored. Who may not ask (it takes the owner of the file) is not told, and that counts as no.
bool is_written(int fd) {
  ::fcntl(fd, F_SETSIG, SIGURG);
  const bool taken = ::fcntl(fd, F_SETLEASE, F_RDLCK) == 0;
  const bool written = !taken && errno == EAGAIN;
  if (taken) ::fcntl(fd, F_SETLEASE, F_UNLCK);
  return written;
}

void* map_for(void* context, int fd, std::size_t bytes, off_t offset, bool shared) {
  return static_cast<FileMapper*>(context)->map_for_program(fd, static_cast<std::uint64_t>(offset), bytes, shared);
}

bool unmap_for(void* context, void* data, std::size_t bytes) {
  return static_cast<FileMapper*>(context)->unmap_for_program({static_cast<std::byte*>(data), bytes});
}

unsigned kinds_for(void* context, const void* data, std::size_t bytes) {
  const auto kinds = static_cast<FileMapper*>(context)->kinds_for_program({static_cast<const std::byte*>(data), bytes});
  return (kinds.files ? calls::kMappedPrivate : 0U) | (kinds.shared ? calls::kMappedShared : 0U) |
         (kinds.other ? calls::kMappedNoFile : 0U);
}

int discard_for(void* context, void* data, std::size_t bytes) {
  return static_cast<FileMapper*>(context)->discard_for_program({static_cast<std::byte*>(data), bytes});
}

}  // namespace

OpenedFiles::~OpenedFiles() {
  serve(nullptr);
  for (const Opened& opened : files_) ::close(opened.fd);
}

Status OpenedFiles::open(const std::string& path, SourceFile& source, std::string& reason) {
  return open(path, path, source, reason);
}

Status OpenedFiles::open(int descriptor, SourceFile& source, std::string& reason) {
  char name[PATH_MAX];
  const ssize_t length = ::readlink(link_of(descriptor).c_str(), name, sizeof name);
  return open(link_of(descriptor), std::string(name, static_cast<std::size_t>(std::max<ssize_t>(length, 0))), source,
              reason);
}

Status OpenedFiles::open(const std::string& path, const std::string& name, SourceFile& source, std::string& reason) {
  Opened opened;
  struct stat status {};
  opened.fd = open_direct(path);
  if (opened.fd < 0 || ::fstat(opened.fd, &status) != 0) {
    reason = std::strerror(errno);
    if (opened.fd >= 0) ::close(opened.fd);
    return Status::kInvalid;
  }
  const bool regular = S_ISREG(status.st_mode);
  if (!regular || is_written(opened.fd)) {
    reason = regular ? "somebody has it open for writing" : "it is no regular file";
    ::close(opened.fd);
    return regular ? Status::kBusy : Status::kInvalid;
  }
  source.bytes = static_cast<std::uint64_t>(status.st_size);
  for (const Opened& other : files_) {
    const bool same = other.device == status.st_dev && other.inode == status.st_ino && other.bytes == status.st_size &&
                      other.changed.tv_sec == status.st_ctim.tv_sec && other.changed.tv_nsec == status.st_ctim.tv_nsec;
    if (!same) continue;
    ::close(opened.fd);
    source.file = other.fd;
    return Status::kOk;
  }
  source.file = opened.fd;
  files_.push_back({opened.fd, status.st_dev, status.st_ino, status.st_size, status.st_ctim, name});
  return Status::kOk;
}

void OpenedFiles::close(std::int32_t file) {
  if (std::erase_if(files_, [file](const Opened& each) { return each.fd == file; }) > 0) ::close(file);
}

const char* OpenedFiles::name(std::int32_t file) const {
  for (const Opened& opened : files_) {
    if (opened.fd == file) return opened.name.c_str();
  }
  return "a file";
}

bool OpenedFiles::serve(FileMapper* mapper) {
  if (mapper == nullptr && !serves_) return true;
  const auto set = reinterpret_cast<calls::SetFiles>(::dlsym(RTLD_DEFAULT, calls::kFilesName));
  if (set == nullptr) return false;
  const calls::Files files{mapper, &map_for, &unmap_for, &kinds_for, &discard_for};
  if (set(mapper == nullptr ? nullptr : &files) != 0) return false;  // another runtime has them
  serves_ = mapper != nullptr;
  return true;
}

}  // namespace ebb
