// See flash_file.h.
#include "drivers/linux/flash/flash_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "drivers/linux/system/system_files.h"

namespace ebb {
namespace {

constexpr long kTmpfsMagic = 0x01021994;
constexpr long kRamfsMagic = 0x858458f6;
constexpr const char* kRemedy = "; name a directory on a disk with --flash DIR or EBB_FLASH";

[[noreturn]] void refuse(const std::string& directory, const std::string& why, const char* remedy = kRemedy) {
  throw Error(Status::kInvalid, "flash directory '" + directory + "' " + why + remedy);
}

// An unnamed file where the file system knows them; otherwise a named one that loses its name at once.
int open_unnamed(const std::string& directory, int flags) {
  const int fd = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return fd;
  std::string name = directory + "/.ebb-XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC | flags);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

// Transfers all of a span or fails; resumes short transfers.
template <typename Transfer>
Status transfer_all(std::size_t bytes, Transfer transfer) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t moved = transfer(done);
    if (moved < 0 && errno == EINTR) continue;
    const bool full = moved < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG);
    if (moved <= 0) return full ? Status::kNoSpace : Status::kIoError;
    done += static_cast<std::size_t>(moved);
  }
  return Status::kOk;
}

}  // namespace

std::string default_flash_directory() {
  const char* directory = std::getenv("TMPDIR");
  return directory != nullptr && *directory != '\0' ? directory : "/tmp";
}

std::uint64_t flash_share(std::uint64_t wanted, std::uint64_t left) {
  if (wanted == 0) return left / 10 * 9;
  return left == 0 ? wanted : std::min(wanted, left);
}

FlashFile FlashFile::open(const std::string& directory) {
  struct stat status {};
  if (::stat(directory.c_str(), &status) != 0)
    refuse(directory, std::string("cannot be used: ") + std::strerror(errno));
  if (!S_ISDIR(status.st_mode)) refuse(directory, "is not a directory");
  struct statfs file_system {};
  if (::statfs(directory.c_str(), &file_system) != 0) refuse(directory, "cannot be examined");
  if (file_system.f_type == kTmpfsMagic || file_system.f_type == kRamfsMagic) {
    refuse(directory, "is a RAM disk: it would hold in memory what is to leave memory");
  }
  FlashFile file;
  file.fd_ = open_unnamed(directory, O_DIRECT);
  file.direct_ = file.fd_ >= 0;
  if (file.fd_ < 0 && errno == EINVAL) file.fd_ = open_unnamed(directory, 0);
  if (file.fd_ < 0 && errno == EMFILE) refuse(directory, "cannot be used: " + explain(errno), "");
  if (file.fd_ < 0) refuse(directory, std::string("is not writable: ") + std::strerror(errno));
  return file;
}

FlashFile::~FlashFile() {
  if (fd_ >= 0) ::close(fd_);
}

std::uint64_t FlashFile::free_bytes() const {
  struct statfs file_system {};
  if (::fstatfs(fd_, &file_system) != 0) return 0;
  return static_cast<std::uint64_t>(file_system.f_bavail) * static_cast<std::uint64_t>(file_system.f_bsize);
}

std::uint64_t FlashFile::most_bytes(std::uint64_t wanted) const {
  const std::uint64_t bytes = flash_share(wanted, free_bytes());
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return bytes;
  return std::min<std::uint64_t>(bytes, limit.rlim_cur);
}

Status FlashFile::grow(std::uint64_t bytes) {
  if (bytes <= size_) return Status::kOk;
  int result = 0;
  do {
    result = ::fallocate(fd_, 0, static_cast<off_t>(size_), static_cast<off_t>(bytes - size_));
  } while (result != 0 && errno == EINTR);
  if (result != 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) {
    result = ::ftruncate(fd_, static_cast<off_t>(bytes));  // a full disk is then met by a write, and survived there
  }
  if (result != 0) return errno == ENOSPC || errno == EFBIG || errno == EDQUOT ? Status::kNoSpace : Status::kIoError;
  size_ = bytes;
  return Status::kOk;
}

Status FlashFile::read(std::uint64_t offset, std::span<std::byte> buffer) const {
  return transfer_all(buffer.size(), [&](std::size_t done) {
    return ::pread(fd_, buffer.data() + done, buffer.size() - done, static_cast<off_t>(offset + done));
  });
}

Status FlashFile::write(std::uint64_t offset, std::span<const std::byte> buffer) const {
  return transfer_all(buffer.size(), [&](std::size_t done) {
    return ::pwrite(fd_, buffer.data() + done, buffer.size() - done, static_cast<off_t>(offset + done));
  });
}

Status FlashFile::move(const RawRequest& request, std::size_t done) const {
  const std::span<std::byte> rest = request.bytes.subspan(done);
  const std::uint64_t offset = request.offset + done;
  if (request.write) return write(offset, rest);
  const int fd = fd_of(request);
  return transfer_all(request.least() - done, [&](std::size_t moved) {
    return ::pread(fd, rest.data() + moved, rest.size() - moved, static_cast<off_t>(offset + moved));
  });
}

}  // namespace ebb
