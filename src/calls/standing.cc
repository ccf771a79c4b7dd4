// How this library comes to stand before the C library's functions in a program that runs already: what it exports is
// written into the tables of those who import it.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "calls/imports.h"
#include "calls/table.h"

// The linker's name for the beginning of this library.
extern "C" [[gnu::visibility("hidden")]] const ElfW(Ehdr) __ehdr_start;

namespace ebb::calls {
namespace {

constexpr std::size_t kEntriesMax = 128;

struct Entries {
  std::array<Import, kEntriesMax> all;
  std::size_t count = 0;

  // Those of which the C library's is the first in this process, and so called by all.
  Entries() {
    const ElfW(Sym)* symbols = nullptr;
    const char* names = nullptr;
    const std::uint32_t* hash = nullptr;  // buckets, symbols, …
    for (const ElfW(Dyn)* entry = _DYNAMIC; entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
      if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(entry->d_un.d_ptr);
      if (entry->d_tag == DT_HASH) hash = reinterpret_cast<const std::uint32_t*>(entry->d_un.d_ptr);
    }
    if (symbols == nullptr || names == nullptr || hash == nullptr) return;
    const auto* const base = reinterpret_cast<const char*>(&__ehdr_start);
    for (const ElfW(Sym) & symbol : std::span(symbols, hash[1])) {
      const char* const name = names + symbol.st_name;
      if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
      if (::strncmp(name, "ebb_", 4) == 0 || count == all.size()) continue;
      void* const first = ::dlsym(RTLD_DEFAULT, name);
      if (first != nullptr && first == ::dlsym(RTLD_NEXT, name)) all[count++] = {name, base + symbol.st_value};
    }
    std::sort(all.begin(), all.begin() + count,
              [](const Import& left, const Import& right) { return ::strcmp(left.name, right.name) < 0; });
  }
};

}  // namespace

extern "C" [[gnu::visibility("default")]] std::size_t ebb_calls_stand_before() {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static constinit ImportRedirection redirection;
  ::pthread_mutex_lock(&mutex);
  static const Entries entries;
  const std::size_t libraries = redirection.redirect(std::span(entries.all.data(), entries.count));
  ::pthread_mutex_unlock(&mutex);
  return libraries;
}

}  // namespace ebb::calls
