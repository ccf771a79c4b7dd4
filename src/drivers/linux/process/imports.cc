// See imports.h. The tables are those of the ELF specification's dynamic section: relocations name a symbol and a
// place.
#include "drivers/linux/process/imports.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>

#include "drivers/linux/process/process_map.h"

namespace ebb {
namespace {

#if defined(__x86_64__)
constexpr std::uint64_t kCall = R_X86_64_JUMP_SLOT, kAddress = R_X86_64_GLOB_DAT, kData = R_X86_64_64;
#elif defined(__aarch64__)
constexpr std::uint64_t kCall = R_AARCH64_JUMP_SLOT, kAddress = R_AARCH64_GLOB_DAT, kData = R_AARCH64_ABS64;
#else
constexpr std::uint64_t kCall = ~0ULL, kAddress = kCall, kData = kCall;
#endif

struct Redirection {
  const char* name;
  std::uintptr_t instead;
  ProcessMap map{};
  std::size_t tables = 0;
};

// The loader has taken the right to write away from most tables once it was done.
bool write(const ProcessMap& map, std::uintptr_t place, std::uintptr_t value) {
  Mapping mapping;
  if (!map.find(place, mapping)) return false;
  const auto page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  auto* const page = reinterpret_cast<void*>(place / page_bytes * page_bytes);
  if (!mapping.writable && ::mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return false;
  std::atomic_ref(*reinterpret_cast<std::uintptr_t*>(place)).store(value);  // others call through it meanwhile
  if (!mapping.writable) ::mprotect(page, page_bytes, PROT_READ);
  return true;
}

class Library {
 public:
  explicit Library(const dl_phdr_info& info) : base_(info.dlpi_addr) {
    for (const ElfW(Phdr) & header : std::span(info.dlpi_phdr, info.dlpi_phnum)) {
      if (header.p_type == PT_DYNAMIC) read_dynamic(reinterpret_cast<const ElfW(Dyn)*>(base_ + header.p_vaddr));
    }
  }

  bool redirect(const Redirection& redirection) const {
    if (symbols_ == nullptr || names_ == nullptr) return false;
    const bool called = redirect(calls_, redirection);
    return redirect(others_, redirection) || called;
  }

 private:
  // Most loaders have added the base to the addresses there; for the kernel's own library nobody has.
  template <class T>
  const T* at(std::uintptr_t address) const {
    return reinterpret_cast<const T*>(address < base_ ? base_ + address : address);
  }

  void read_dynamic(const ElfW(Dyn) * entry) {
    const ElfW(Rela)* calls = nullptr;
    const ElfW(Rela)* others = nullptr;
    std::size_t call_bytes = 0, other_bytes = 0;
    for (; entry->d_tag != DT_NULL; ++entry) {
      switch (entry->d_tag) {
        case DT_SYMTAB: symbols_ = at<ElfW(Sym)>(entry->d_un.d_ptr); break;
        case DT_STRTAB: names_ = at<char>(entry->d_un.d_ptr); break;
        case DT_JMPREL: calls = at<ElfW(Rela)>(entry->d_un.d_ptr); break;
        case DT_PLTRELSZ: call_bytes = entry->d_un.d_val; break;
        case DT_RELA: others = at<ElfW(Rela)>(entry->d_un.d_ptr); break;
        case DT_RELASZ: other_bytes = entry->d_un.d_val; break;
        default: break;
      }
    }
    if (calls != nullptr) calls_ = {calls, call_bytes / sizeof(ElfW(Rela))};
    if (others != nullptr) others_ = {others, other_bytes / sizeof(ElfW(Rela))};
  }

  bool redirect(std::span<const ElfW(Rela)> relocations, const Redirection& redirection) const {
    bool found = false;
    for (const ElfW(Rela) & relocation : relocations) {
      const std::uint64_t type = ELF64_R_TYPE(relocation.r_info);
      if (type != kCall && type != kAddress && (type != kData || relocation.r_addend != 0)) continue;
      const ElfW(Sym)& symbol = symbols_[ELF64_R_SYM(relocation.r_info)];
      if (std::strcmp(names_ + symbol.st_name, redirection.name) != 0) continue;
      found = write(redirection.map, base_ + relocation.r_offset, redirection.instead) || found;
    }
    return found;
  }

  std::uintptr_t base_;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* names_ = nullptr;
  std::span<const ElfW(Rela)> calls_, others_;
};

int redirect_one(dl_phdr_info* info, std::size_t /*bytes*/, void* given) {
  const auto kernels = ::getauxval(AT_SYSINFO_EHDR);
  if (kernels != 0 && info->dlpi_addr == kernels) return 0;  // it calls nobody
  auto& redirection = *static_cast<Redirection*>(given);
  if (Library(*info).redirect(redirection)) ++redirection.tables;
  return 0;
}

}  // namespace

std::size_t redirect_imports(const char* name, const void* instead) {
  Redirection redirection{.name = name, .instead = reinterpret_cast<std::uintptr_t>(instead)};
  if (ProcessMap::open(redirection.map) != Status::kOk) return 0;
  ::dl_iterate_phdr(&redirect_one, &redirection);
  return redirection.tables;
}

}  // namespace ebb
