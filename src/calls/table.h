// What the runtime tells libebb_calls.so, in C: found with dlsym, because the library is there only where `ebb run`,
// LD_PRELOAD or a linker has put it. Any thread; not inside a signal handler.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstddef>

namespace ebb::calls {

enum Registered : unsigned {
  kAbsentFails = 1,  // a system call on what is absent there fails with EFAULT: it is to be completed
  kOurs = 2,         // the runtime's addresses: the program may use, but not change the mapping of them
  kManaged = 4,      // every range: the pages under it are other pages later
};

inline constexpr const char* kRegisterName = "ebb_calls_register";
inline constexpr const char* kUnregisterName = "ebb_calls_unregister";
using Register = int (*)(const void* begin, std::size_t bytes, unsigned registered);  // 0, or -1: no room
using Unregister = void (*)(const void* begin);

// From now on, sigaction() by the program calls `replace` for this signal. Returns the C library's sigaction().
inline constexpr const char* kKeepHandlerName = "ebb_calls_keep_handler";
using Replace = int (*)(const struct sigaction* action, struct sigaction* before);
using SetAction = int (*)(int signal, const struct sigaction* action, struct sigaction* before);
using KeepHandler = SetAction (*)(int signal, Replace replace);

enum MappedKind : unsigned {
  kMappedPrivate = 1,
  kMappedShared = 2,  // and so only to be read
  kMappedNoFile = 4,
};

// Files that the program maps, and what it does to these mappings. map(): null if the kernel is to map it; unmap():
// false if it is no mapping of a file. kinds(): of MappedKind, those that there are. discard(): what was written is
// dropped; 0, or an errno. 0, or -1: somebody else has them. Null ends it.
struct Files {
  void* context;
  void* (*map)(void* context, int fd, std::size_t bytes, off_t offset, bool shared);
  bool (*unmap)(void* context, void* data, std::size_t bytes);
  unsigned (*kinds)(void* context, const void* data, std::size_t bytes);
  int (*discard)(void* context, void* data, std::size_t bytes);
};
inline constexpr const char* kFilesName = "ebb_calls_files";
using SetFiles = int (*)(const Files* files);

// Bytes of memory shared with other processes that the program has mapped, and the most that they ever were.
inline constexpr const char* kSharedMemoryName = "ebb_calls_shared_memory";
using SharedMemory = std::size_t (*)(std::size_t* most);

// What _exit() calls before it ends the process. It is called in signal handlers, too.
inline constexpr const char* kBeforeEndName = "ebb_calls_before_end";
using BeforeEnd = void (*)();
using SetBeforeEnd = void (*)(BeforeEnd call);

// What each thread that the program makes from now on calls before anything else. Null ends it.
inline constexpr const char* kThreadBeginsName = "ebb_calls_thread_begins";
using ThreadBegins = void (*)();
using SetThreadBegins = void (*)(ThreadBegins call);

// Where the library is loaded by a program that runs already (dlopen, RTLD_GLOBAL): from now on the libraries that are
// loaded call it, as if it had come before them; called again, those too that have been loaded since. A function that
// somebody else stands before stays theirs. Returns how many libraries call it anew.
inline constexpr const char* kStandBeforeName = "ebb_calls_stand_before";
using StandBefore = std::size_t (*)();

}  // namespace ebb::calls
