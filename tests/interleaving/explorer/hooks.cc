// What code compiled with -fsanitize=thread calls, here for the Explorer in place of the sanitizer's library; and what
// the linker puts before the C library (--wrap). Whoever is not watched has the real thing.
#include <malloc.h>
#include <pthread.h>
#include <sys/syscall.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "interleaving/explorer/explorer.h"

using ebb::interleaving::on_access;
using ebb::interleaving::on_load;
using ebb::interleaving::on_store;
using ebb::interleaving::on_update;
using ebb::interleaving::Updated;
using ebb::interleaving::watched;

namespace {

std::memory_order order_of(int order) { return static_cast<std::memory_order>(order & 0xff); }

template <typename T>
T load(const volatile T* object, int order, const void* site) {
  if (!watched()) return __atomic_load_n(object, __ATOMIC_SEQ_CST);
  return static_cast<T>(on_load(const_cast<const T*>(object), sizeof(T), order_of(order), site));
}

template <typename T>
void store(volatile T* object, T value, int order, const void* site) {
  if (!watched()) return __atomic_store_n(object, value, __ATOMIC_SEQ_CST);
  on_store(const_cast<T*>(object), sizeof(T), value, order_of(order), site);
}

// `change` of values of this size.
template <typename T, typename Compute>
T update(volatile T* object, T operand, int order, const void* site, Compute) {
  const auto change = [](std::uint64_t& value, std::uint64_t with, std::uint64_t) {
    value = Compute{}(static_cast<T>(value), static_cast<T>(with));
    return true;
  };
  if (watched()) {
    const auto done = on_update(const_cast<T*>(object), sizeof(T), change, operand, 0, order_of(order),
                                std::memory_order_relaxed, site);
    return static_cast<T>(done.before);
  }
  T before = __atomic_load_n(object, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(object, &before, Compute{}(before, operand), false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_SEQ_CST)) {
  }
  return before;
}

template <typename T>
bool compare_exchange(volatile T* object, T* expected, T value, int order, int failed, const void* site) {
  if (!watched()) {
    return __atomic_compare_exchange_n(object, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  }
  const auto change = [](std::uint64_t& now, std::uint64_t with, std::uint64_t wanted) {
    if (now != wanted) return false;
    now = with;
    return true;
  };
  const Updated done =
      on_update(const_cast<T*>(object), sizeof(T), change, value, *expected, order_of(order), order_of(failed), site);
  if (!done.changed) *expected = static_cast<T>(done.before);
  return done.changed;
}

void plain(const void* address, std::size_t bytes, bool write) {
  if (watched()) on_access(address, bytes, write);
}

}  // namespace

#define EBB_UPDATE(bits, name, expression)                                                                            \
  std::uint##bits##_t __tsan_atomic##bits##_##name(volatile std::uint##bits##_t* object, std::uint##bits##_t operand, \
                                                   int order) {                                                       \
    using T = std::uint##bits##_t;                                                                                    \
    const auto compute = []([[maybe_unused]] T a, T b) { return static_cast<T>(expression); };                        \
    return update<T>(object, operand, order, __builtin_return_address(0), compute);                                   \
  }
#define EBB_ATOMIC(bits)                                                                                         \
  std::uint##bits##_t __tsan_atomic##bits##_load(const volatile std::uint##bits##_t* object, int order) {        \
    return load(object, order, __builtin_return_address(0));                                                     \
  }                                                                                                              \
  void __tsan_atomic##bits##_store(volatile std::uint##bits##_t* object, std::uint##bits##_t value, int order) { \
    store(object, value, order, __builtin_return_address(0));                                                    \
  }                                                                                                              \
  bool __tsan_atomic##bits##_compare_exchange_strong(volatile std::uint##bits##_t* object,                       \
                                                     std::uint##bits##_t* expected, std::uint##bits##_t value,   \
                                                     int order, int failed) {                                    \
    return compare_exchange(object, expected, value, order, failed, __builtin_return_address(0));                \
  }                                                                                                              \
  bool __tsan_atomic##bits##_compare_exchange_weak(volatile std::uint##bits##_t* object,                         \
                                                   std::uint##bits##_t* expected, std::uint##bits##_t value,     \
                                                   int order, int failed) {                                      \
    return compare_exchange(object, expected, value, order, failed, __builtin_return_address(0));                \
  }                                                                                                              \
  EBB_UPDATE(bits, exchange, b)                                                                                  \
  EBB_UPDATE(bits, fetch_add, a + b)                                                                             \
  EBB_UPDATE(bits, fetch_sub, a - b)                                                                             \
  EBB_UPDATE(bits, fetch_and, a& b)                                                                              \
  EBB_UPDATE(bits, fetch_or, a | b)                                                                              \
  EBB_UPDATE(bits, fetch_xor, a ^ b)
#define EBB_PLAIN(bytes)                                                             \
  void __tsan_read##bytes(void* address) { plain(address, bytes, false); }           \
  void __tsan_write##bytes(void* address) { plain(address, bytes, true); }           \
  void __tsan_unaligned_read##bytes(void* address) { plain(address, bytes, false); } \
  void __tsan_unaligned_write##bytes(void* address) { plain(address, bytes, true); } \
  void __tsan_volatile_read##bytes(void* address) { plain(address, bytes, false); }  \
  void __tsan_volatile_write##bytes(void* address) { plain(address, bytes, true); }

extern "C" {

EBB_ATOMIC(8)
EBB_ATOMIC(16)
EBB_ATOMIC(32)
EBB_ATOMIC(64)
EBB_PLAIN(1)
EBB_PLAIN(2)
EBB_PLAIN(4)
EBB_PLAIN(8)
EBB_PLAIN(16)

void __tsan_atomic_thread_fence(int order) {
  if (watched()) ebb::interleaving::on_fence(order_of(order), __builtin_return_address(0));
}
void __tsan_atomic_signal_fence(int) {}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void* address, void*) { plain(address, sizeof(void*), true); }
void __tsan_vptr_read(void* address) { plain(address, sizeof(void*), false); }
void __tsan_read_range(void* address, std::size_t bytes) { plain(address, bytes, false); }
void __tsan_write_range(void* address, std::size_t bytes) { plain(address, bytes, true); }

int __real_pthread_mutex_lock(pthread_mutex_t* mutex);
int __real_pthread_mutex_trylock(pthread_mutex_t* mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t* mutex);

int __wrap_pthread_mutex_lock(pthread_mutex_t* mutex) {
  if (!watched()) return __real_pthread_mutex_lock(mutex);
  ebb::interleaving::on_lock(mutex, __builtin_return_address(0));
  return 0;
}
int __wrap_pthread_mutex_trylock(pthread_mutex_t* mutex) {
  if (!watched()) return __real_pthread_mutex_trylock(mutex);
  return ebb::interleaving::on_try_lock(mutex, __builtin_return_address(0)) ? 0 : EBUSY;
}
int __wrap_pthread_mutex_unlock(pthread_mutex_t* mutex) {
  if (!watched()) return __real_pthread_mutex_unlock(mutex);
  ebb::interleaving::on_unlock(mutex, __builtin_return_address(0));
  return 0;
}
void* __real_memcpy(void* to, const void* from, std::size_t bytes);
void* __wrap_memcpy(void* to, const void* from, std::size_t bytes) {
  if (!watched()) return __real_memcpy(to, from, bytes);
  ebb::interleaving::on_copy(to, from, bytes, __builtin_return_address(0));
  return to;
}
// Who waits for a word of memory looks at it again.
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
  return watched() && number == SYS_futex ? 0 : __real_syscall(number, a, b, c, d, e, f);
}
// Who yields is not faster for it here.
int __wrap_sched_yield() { return 0; }

// ebb::check_failed(const char*, int, const char*, unsigned long, unsigned long)
[[noreturn]] void __wrap__ZN3ebb12check_failedEPKciS1_mm(const char* file, int line, const char* condition,
                                                         std::uint64_t left, std::uint64_t right) {
  char text[512];
  std::snprintf(text, sizeof text, "%s:%d: %s (left %llu, right %llu)", file, line, condition,
                static_cast<unsigned long long>(left), static_cast<unsigned long long>(right));
  std::fprintf(stderr, "%s\n", text);
  ebb::interleaving::on_failed_check(text);
}

}  // extern "C"

// What is freed and allocated again is not what it was.
void operator delete(void* data) noexcept {
  if (watched() && data != nullptr) ebb::interleaving::on_free(data, ::malloc_usable_size(data));
  std::free(data);
}
void operator delete(void* data, std::size_t) noexcept { operator delete(data); }
