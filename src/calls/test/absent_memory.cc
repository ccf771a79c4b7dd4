// See absent_memory.h. System calls of its own go past the library under test.
#include "absent_memory.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

extern "C" int ebb_calls_register(const void* begin, std::size_t bytes, unsigned registered);
extern "C" void ebb_calls_unregister(const void* begin);

namespace ebb::calls {
namespace {

std::atomic<std::uintptr_t> g_begin{0};
std::atomic<std::uintptr_t> g_end{0};
std::atomic<std::uintptr_t> g_lost{0};
std::atomic<std::uint64_t> g_touches{0};

void protect(std::uintptr_t address, std::size_t bytes, int protection) {
  if (::syscall(SYS_mprotect, address, bytes, protection) != 0) std::abort();
}

void handle(int signal, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (address < g_begin || address >= g_end) {
    ::signal(signal, SIG_DFL);
    return;
  }
  const std::uintptr_t page = address & ~(AbsentMemory::kPage - 1);
  if (page == g_lost) {
    ::raise(SIGBUS);
    return;
  }
  ++g_touches;
  protect(page, AbsentMemory::kPage, PROT_READ | PROT_WRITE);
}

}  // namespace

AbsentMemory::AbsentMemory(std::size_t bytes, unsigned kind) : bytes_(bytes) {
  void* const mapped = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) std::abort();
  data_ = static_cast<char*>(mapped);
  g_begin = reinterpret_cast<std::uintptr_t>(data_);
  g_end = g_begin + bytes;
  g_touches = 0;
  g_lost = 0;
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;
  ::sigaction(SIGSEGV, &action, &before_);
  if (ebb_calls_register(data_, bytes, kind) != 0) std::abort();
}

AbsentMemory::~AbsentMemory() {
  ebb_calls_unregister(data_);
  ::sigaction(SIGSEGV, &before_, nullptr);
  g_begin = g_end = 0;
  ::syscall(SYS_munmap, data_, bytes_);
}

std::uint64_t AbsentMemory::touches() const { return g_touches; }

void AbsentMemory::leave(std::size_t offset, std::size_t bytes) const {
  protect(reinterpret_cast<std::uintptr_t>(data_ + offset), bytes, PROT_NONE);
}

void AbsentMemory::come(std::size_t offset, std::size_t bytes) const {
  protect(reinterpret_cast<std::uintptr_t>(data_ + offset), bytes, PROT_READ | PROT_WRITE);
}

void AbsentMemory::lose(std::size_t offset) const {
  leave(offset, kPage);
  g_lost = reinterpret_cast<std::uintptr_t>(data_ + offset);
}

void AbsentMemory::fill(unsigned seed) const {
  for (std::size_t i = 0; i < bytes_; ++i) data_[i] = pattern(seed, i);
  leave();
}

}  // namespace ebb::calls
