// Checks for bugs: EBB_CHECK is always on and prints both operands; EBB_DCHECK only where EBB_VALIDATE is defined, for
// hot loops. A failed check is a defect of Ebbtide, never of its input, so it ends the process at once.
//
// check_failed() does not allocate: it may run on the fault thread while another thread holds malloc's lock.
#pragma once

#include <cstdint>
#include <type_traits>

namespace ebb {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::uint64_t left,
                               std::uint64_t right);

template <typename T>
constexpr std::uint64_t check_operand(const T& value) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<std::uintptr_t>(value);
  } else if constexpr (requires { value.value(); }) {
    return value.value();
  } else {
    return static_cast<std::uint64_t>(value);
  }
}

}  // namespace ebb

#define EBB_CHECK(condition)                                     \
  do {                                                           \
    if (!(condition)) [[unlikely]]                               \
      ::ebb::check_failed(__FILE__, __LINE__, #condition, 0, 0); \
  } while (false)

#define EBB_CHECK_OP_(left, op, right)                                                               \
  do {                                                                                               \
    const auto& left_ = (left);                                                                      \
    const auto& right_ = (right);                                                                    \
    if (!(left_ op right_)) [[unlikely]]                                                             \
      ::ebb::check_failed(__FILE__, __LINE__, #left " " #op " " #right, ::ebb::check_operand(left_), \
                          ::ebb::check_operand(right_));                                             \
  } while (false)

#define EBB_CHECK_EQ(left, right) EBB_CHECK_OP_(left, ==, right)
#define EBB_CHECK_NE(left, right) EBB_CHECK_OP_(left, !=, right)
#define EBB_CHECK_LT(left, right) EBB_CHECK_OP_(left, <, right)
#define EBB_CHECK_LE(left, right) EBB_CHECK_OP_(left, <=, right)

#ifdef EBB_VALIDATE
#define EBB_DCHECK(condition) EBB_CHECK(condition)
#else
#define EBB_DCHECK(condition) \
  do {                        \
  } while (false)
#endif
