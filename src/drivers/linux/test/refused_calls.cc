// See refused_calls.h.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their libraries wrap these calls
#include "drivers/linux/test/refused_calls.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "base/check.h"

namespace ebb {
namespace {

RefusedCalls::Rule g_rule;
std::atomic<bool> g_refusing = false;

// Whether the call has failed.
bool refused(const DriverCall& call) {
  const int error = g_refusing.load(std::memory_order_acquire) ? g_rule(call) : 0;
  if (error != 0) errno = error;
  return error != 0;
}

}  // namespace

RefusedCalls::RefusedCalls(Rule rule) {
  EBB_CHECK(!g_refusing);
  g_rule = std::move(rule);
  g_refusing.store(true, std::memory_order_release);
}

RefusedCalls::~RefusedCalls() { g_refusing = false; }

}  // namespace ebb

// Of variadic functions; the arguments that a caller has not given are not looked at.
extern "C" {
int __real_ioctl(int fd, unsigned long request, unsigned long argument);
long __real_syscall(long number, unsigned long a, unsigned long b, unsigned long c, unsigned long d, unsigned long e,
                    unsigned long f);
int __real_usleep(useconds_t time_us);

int __wrap_ioctl(int fd, unsigned long request, unsigned long argument) {
  const ebb::DriverCall call{ebb::DriverCall::Kind::kIoctl, request, {static_cast<unsigned long>(fd), argument}};
  return ebb::refused(call) ? -1 : __real_ioctl(fd, request, argument);
}

long __wrap_syscall(long number, unsigned long a, unsigned long b, unsigned long c, unsigned long d, unsigned long e,
                    unsigned long f) {
  const ebb::DriverCall call{ebb::DriverCall::Kind::kSyscall, static_cast<unsigned long>(number), {a, b, c, d, e, f}};
  return ebb::refused(call) ? -1 : __real_syscall(number, a, b, c, d, e, f);
}

// Nobody has patience with what is refused on purpose.
int __wrap_usleep(useconds_t time_us) { return ebb::g_refusing ? 0 : __real_usleep(time_us); }
}
#endif
