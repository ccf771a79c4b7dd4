// AbsentMemory: memory as the fallback driver has it: an absent page has no access, and its touch makes it present,
// with its content; the kernel does not wait for that and answers EFAULT. Registered with libebb_calls, as the
// runtime's is. One at a time; tests only.
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace ebb::calls {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kLocksNothing = true;  // sanitizers make nothing of mlock()
#else
inline constexpr bool kLocksNothing = false;
#endif
#if defined(__SANITIZE_THREAD__)
inline constexpr const char* kNoHandlers = "the thread sanitizer puts its own handler in front, and calls ours later";
#else
inline constexpr const char* kNoHandlers = nullptr;
#endif

class AbsentMemory {
 public:
  static constexpr std::size_t kPage = 4096;

  explicit AbsentMemory(std::size_t bytes, unsigned kind = 1);
  ~AbsentMemory();

  char* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  std::uint64_t touches() const;

  // Pages of [offset, offset + bytes) come or go; their content stays.
  void leave(std::size_t offset, std::size_t bytes) const;
  void leave() const { leave(0, bytes_); }
  void come(std::size_t offset, std::size_t bytes) const;
  // From now on its touch is SIGBUS.
  void lose(std::size_t offset) const;

  // Content that tells every byte from its neighbours; leaves.
  void fill(unsigned seed) const;

 private:
  char* data_;
  std::size_t bytes_;
  struct sigaction before_ {};
};

inline char pattern(unsigned seed, std::size_t i) {
  return static_cast<char>((i * 2654435761u + seed) >> 13 ^ i);  // no period of a page
}

inline bool has_pattern(const char* data, std::size_t bytes, unsigned seed, std::size_t from = 0) {
  for (std::size_t i = 0; i < bytes; ++i) {
    if (data[i] != pattern(seed, from + i)) return false;
  }
  return true;
}

}  // namespace ebb::calls
