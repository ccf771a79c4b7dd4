// Same: whether a function pointer of ours can be called as the library's own, for the checks of declarations.
//
// Compile time only.
#pragma once

#include <type_traits>

namespace ebb::cuda {

// Ours against theirs: as many arguments, each of the same size, and of the same kind.
template <typename Ours, typename Theirs>
constexpr bool alike = sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
                       (std::is_integral_v<Ours> || std::is_enum_v<Ours>) ==
                           (std::is_integral_v<Theirs> || std::is_enum_v<Theirs>);
template <typename Ours, typename Theirs>
struct Same : std::false_type {};
template <typename R, typename... Ours, typename S, typename... Theirs>
requires(sizeof...(Ours) == sizeof...(Theirs)) struct Same<R (*)(Ours...), S (*)(Theirs...)>
    : std::bool_constant<alike<R, S> && (alike<Ours, Theirs> && ...)> {
};

}  // namespace ebb::cuda
