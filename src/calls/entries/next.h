// Next: the function behind an interposed one, that of the C library or of whoever else interposes it. Looked up once:
// when this library is loaded, or before that by a call from another library's constructor.
#pragma once

#include <dlfcn.h>
#include <errno.h>

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace ebb::calls {

// A name as a template's argument.
template <std::size_t kBytes>
struct Name {
  consteval Name(const char (&text)[kBytes]) { std::copy_n(text, kBytes, value); }  // NOLINT: from a literal
  char value[kBytes];
};

template <Name kName, typename Signature>
struct Next;

template <Name kName, typename Result, typename... Arguments>
struct Next<kName, Result(Arguments...)> {
  using Function = Result (*)(Arguments...);

  static Result call(Arguments... arguments) {
    static_cast<void>(&kReady);  // so that there is one
    return function.load(std::memory_order_relaxed)(arguments...);
  }

 private:
  // Of a C library that has no such function: nobody who was linked against it calls this.
  static Result missing(Arguments...) {
    errno = ENOSYS;
    return (Result)-1;  // also as a pointer
  }
  static Function find() {
    void* const found = ::dlsym(RTLD_NEXT, kName.value);
    const Function next = found == nullptr ? &missing : reinterpret_cast<Function>(found);
    function.store(next, std::memory_order_relaxed);
    return next;
  }
  static Result first(Arguments... arguments) { return find()(arguments...); }

  static inline constinit std::atomic<Function> function{&first};
  static inline const bool kReady = (find(), true);
};

}  // namespace ebb::calls
