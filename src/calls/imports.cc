// See imports.h. The tables are those of the ELF specification's dynamic section: relocations name a symbol and a
// place.
#include "calls/imports.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace ebb::calls {
namespace {

#if defined(__x86_64__)
constexpr std::uint64_t kCall = R_X86_64_JUMP_SLOT, kAddress = R_X86_64_GLOB_DAT, kData = R_X86_64_64;
#elif defined(__aarch64__)
constexpr std::uint64_t kCall = R_AARCH64_JUMP_SLOT, kAddress = R_AARCH64_GLOB_DAT, kData = R_AARCH64_ABS64;
#else
constexpr std::uint64_t kCall = ~0ULL, kAddress = kCall, kData = kCall;
#endif

class Library {
 public:
  explicit Library(const dl_phdr_info& info)
      : base_(info.dlpi_addr), page_bytes_(static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE))) {
    for (const ElfW(Phdr) & header : std::span(info.dlpi_phdr, info.dlpi_phnum)) {
      if (header.p_type == PT_DYNAMIC) read_dynamic(reinterpret_cast<const ElfW(Dyn)*>(base_ + header.p_vaddr));
      if (header.p_type == PT_GNU_RELRO) {  // the loader seals whole pages of it
        sealed_begin_ = page_of(base_ + header.p_vaddr);
        sealed_end_ = page_of(base_ + header.p_vaddr + header.p_memsz);
      }
    }
  }

  bool redirect(std::span<const Import> imports) const {
    if (symbols_ == nullptr || names_ == nullptr) return false;
    const bool calls = redirect(calls_, imports);
    return redirect(others_, imports) || calls;
  }

 private:
  std::uintptr_t page_of(std::uintptr_t address) const { return address / page_bytes_ * page_bytes_; }
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

  bool redirect(std::span<const ElfW(Rela)> relocations, std::span<const Import> imports) const {
    bool found = false;
    for (const ElfW(Rela) & relocation : relocations) {
      const std::uint64_t type = ELF64_R_TYPE(relocation.r_info);
      if (type != kCall && type != kAddress && (type != kData || relocation.r_addend != 0)) continue;
      const ElfW(Sym)& symbol = symbols_[ELF64_R_SYM(relocation.r_info)];
      if (symbol.st_shndx != SHN_UNDEF) continue;
      const char* const name = names_ + symbol.st_name;
      const auto import =
          std::lower_bound(imports.begin(), imports.end(), name,
                           [](const Import& each, const char* to) { return std::strcmp(each.name, to) < 0; });
      if (import == imports.end() || std::strcmp(import->name, name) != 0) continue;
      found = write(base_ + relocation.r_offset, reinterpret_cast<std::uintptr_t>(import->instead)) || found;
    }
    return found;
  }

  bool write(std::uintptr_t place, std::uintptr_t value) const {
    const bool sealed = place >= sealed_begin_ && place < sealed_end_;
    auto* const page = reinterpret_cast<void*>(page_of(place));
    if (sealed && ::mprotect(page, page_bytes_, PROT_READ | PROT_WRITE) != 0) return false;
    std::atomic_ref(*reinterpret_cast<std::uintptr_t*>(place)).store(value);  // others call through it meanwhile
    if (sealed) ::mprotect(page, page_bytes_, PROT_READ);
    return true;
  }

  std::uintptr_t base_;
  std::uintptr_t page_bytes_;
  std::uintptr_t sealed_begin_ = 0, sealed_end_ = 0;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* names_ = nullptr;
  std::span<const ElfW(Rela)> calls_, others_;
};

}  // namespace

struct ImportRedirection::Round {
  ImportRedirection* redirection;
  std::span<const Import> imports;
  std::uintptr_t kernels;  // its own library, which calls nobody
  bool first = true;
  std::size_t libraries = 0;
};

std::size_t ImportRedirection::redirect(std::span<const Import> imports) {
  Round round{this, imports, ::getauxval(AT_SYSINFO_EHDR)};
  ::dl_iterate_phdr([](dl_phdr_info* info, std::size_t bytes, void* given) { return visit(info, bytes, given); },
                    &round);
  return round.libraries;
}

int ImportRedirection::visit(void* library, std::size_t /*bytes*/, void* given) {
  const dl_phdr_info& info = *static_cast<const dl_phdr_info*>(library);
  Round& round = *static_cast<Round*>(given);
  ImportRedirection& self = *round.redirection;
  if (round.first) {
    round.first = false;
    if (self.loaded_ == info.dlpi_adds && self.unloaded_ == info.dlpi_subs) return 1;
    if (self.unloaded_ != info.dlpi_subs) self.count_ = 0;  // another may have come where one was
    self.loaded_ = info.dlpi_adds;
    self.unloaded_ = info.dlpi_subs;
  }
  if (info.dlpi_addr == round.kernels && round.kernels != 0) return 0;
  if (self.remember(info.dlpi_addr) && Library(info).redirect(round.imports)) ++round.libraries;
  return 0;
}

// False: it is known.
bool ImportRedirection::remember(std::uintptr_t base) {
  const auto end = seen_.begin() + count_;
  if (std::find(seen_.begin(), end, base) != end) return false;
  if (count_ < seen_.size()) seen_[count_++] = base;
  return true;
}

}  // namespace ebb::calls
