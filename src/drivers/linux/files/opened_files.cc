// See opened_files.h.
#include "drivers/linux/files/opened_files.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "calls/table.h"

namespace ebb {
namespace {

constexpr long kTmpfsMagic = 0x01021994;
constexpr long kRamfsMagic = 0x858458f6;
// ext2 to ext4, XFS, Btrfs, F2FS, bcachefs.
constexpr std::array<long, 5> kLocalMagics{0xef53, 0x58465342, 0x9123683e, 0xf2f52010, 0xca451a4e};
constexpr time_t kSettledSeconds = 2;
constexpr std::size_t kDirectBytes = 4096;  // the unit in which files are read

struct Free {
  void operator()(void* bytes) const { std::free(bytes); }
};

bool same(const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

// Half of what the process may have is the program's.
std::size_t files_max() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / 2 : 0;
}

std::string link_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

// Some file systems open a file with O_DIRECT and then refuse to read it, or do so in larger units only.
bool reads_direct(int fd) {
  const std::unique_ptr<void, Free> page(std::aligned_alloc(kDirectBytes, kDirectBytes));
  return page == nullptr || ::pread(fd, page.get(), kDirectBytes, kDirectBytes) >= 0 || errno != EINVAL;
}

int open_direct(const std::string& path, bool& direct) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  direct = fd >= 0 && reads_direct(fd);
  if (direct || (fd < 0 && errno != EINVAL)) return fd;
  if (fd >= 0) ::close(fd);
  fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  // What is read is the first that the page cache gives up.
  if (fd >= 0) ::posix_fadvise(fd, 0, 0, POSIX_FADV_NOREUSE);
  return fd;
}

bool in_memory(long system) { return system == kTmpfsMagic || system == kRamfsMagic; }

// Whether a change to a file of this kind of file system shows in its ctime at once, and only there: on a server it may
// change without our knowing.
bool keeps_times(long system) { return std::ranges::find(kLocalMagics, system) != std::end(kLocalMagics); }

// Younger, a change within the same tick of the kernel's clock might not show.
bool is_settled(const timespec& changed) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec - changed.tv_sec >= kSettledSeconds;
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

OpenedFiles::OpenedFiles()
    : shared_memory_(reinterpret_cast<calls::SharedMemory>(::dlsym(RTLD_DEFAULT, calls::kSharedMemoryName))) {}

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
  // Looked at before it is opened: opening does something to a device, and waits at a pipe.
  Opened opened;
  if (const char* const why = look(path, opened); why != nullptr) {
    reason = why;
    return Status::kInvalid;
  }
  const Opened* const known = find(opened);
  if (known == nullptr && files_.size() >= files_max()) {
    reason = std::to_string(files_.size()) + " files are mapped, half of the limit of open files; raise it (ulimit -n)";
    return Status::kNoMemory;
  }
  if (known == nullptr) {
    opened.name = name;
    opened.fd = open_direct(path, opened.direct);
    if (opened.fd < 0) {
      reason = std::strerror(errno);
      return Status::kInvalid;
    }
    struct statfs system {};
    if (::fstatfs(opened.fd, &system) == 0) {
      opened.in_memory = in_memory(system.f_type);
      opened.local = keeps_times(system.f_type);
      opened.dated = opened.local && is_settled(opened.changed);
    }
    opened.direct = opened.direct && !opened.in_memory;
  }
  const Opened& file = known != nullptr ? *known : opened;
  if (is_written(file.fd)) {
    reason = "somebody has it open for writing";
    if (known == nullptr) ::close(opened.fd);
    return Status::kBusy;
  }
  source = {file.fd, static_cast<std::uint64_t>(file.bytes), file.direct, file.in_memory};
  if (known == nullptr) {
    const std::lock_guard lock(mutex_);
    files_.push_back(opened);
  }
  return Status::kOk;
}

// Null, or why it is none that can be mapped.
const char* OpenedFiles::look(const std::string& path, Opened& file) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::strerror(errno);
  if (!S_ISREG(status.st_mode)) return "it is no regular file";
  file.device = status.st_dev;
  file.inode = status.st_ino;
  file.bytes = status.st_size;
  file.changed = status.st_ctim;
  file.modified = file.seen = status.st_mtim;
  return nullptr;
}

const OpenedFiles::Opened* OpenedFiles::find(const Opened& file) const {
  const auto found = std::find_if(files_.begin(), files_.end(), [&](const Opened& other) {
    return other.device == file.device && other.inode == file.inode && other.bytes == file.bytes &&
           same(other.changed, file.changed);
  });
  return found == files_.end() ? nullptr : &*found;
}

bool OpenedFiles::same_as_opened(std::int32_t file) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(files_, file, &Opened::fd);
  struct stat status {};
  return found != files_.end() && found->dated && ::fstat(file, &status) == 0 && status.st_size == found->bytes &&
         same(status.st_ctim, found->changed);
}

bool OpenedFiles::changed(std::int32_t file) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(files_, file, &Opened::fd);
  struct stat status {};
  return found != files_.end() && ::fstat(file, &status) == 0 &&
         (status.st_size != found->bytes || !same(status.st_mtim, found->modified));
}

std::int32_t OpenedFiles::take_changed() {
  for (Opened& opened : files_) {
    struct stat status {};
    if (!opened.local || ::fstat(opened.fd, &status) != 0 || same(status.st_mtim, opened.seen)) continue;
    opened.seen = status.st_mtim;
    return opened.fd;
  }
  return FilePlace::kNoFile;
}

void OpenedFiles::close(std::int32_t file) {
  const std::lock_guard lock(mutex_);
  if (std::erase_if(files_, [file](const Opened& each) { return each.fd == file; }) > 0) ::close(file);
}

std::string OpenedFiles::identity(std::int32_t file) const {
  const auto found = std::ranges::find(files_, file, &Opened::fd);
  if (found == files_.end()) return {};
  return std::to_string(found->device) + '-' + std::to_string(found->inode) + '-' + std::to_string(found->bytes) + '-' +
         std::to_string(found->changed.tv_sec) + '-' + std::to_string(found->changed.tv_nsec);
}

const char* OpenedFiles::name(std::int32_t file) const {
  for (const Opened& opened : files_) {
    if (opened.fd == file) return opened.name.c_str();
  }
  return "a file";
}

SourceFiles::SharedMemory OpenedFiles::shared_memory() const {
  SharedMemory shared;
  std::size_t most = 0;
  if (shared_memory_ != nullptr) shared.bytes = shared_memory_(&most);
  shared.most_bytes = most;
  return shared;
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
