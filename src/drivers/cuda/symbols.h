// Libraries that are opened at run time, so that Ebbtide loads where they are not, and the entry points of one.
//
// Values for the time of resolving; one thread. A library is never closed: its threads outlive whoever uses it.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>

namespace ebb::cuda {

// `library`, or where that is empty the first of `names` that there is; null: none.
inline void* open_library(const std::string& library, std::initializer_list<const char*> names) {
  if (!library.empty()) return ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  for (const char* const name : names) {
    if (void* const opened = ::dlopen(name, RTLD_NOW | RTLD_LOCAL); opened != nullptr) return opened;
  }
  return nullptr;
}

// Finds functions, and remembers the first that is missing.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}
  template <typename Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(::dlsym(library_, name));
    if (function == nullptr && missing_ == nullptr) missing_ = name;
  }
  const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

}  // namespace ebb::cuda
