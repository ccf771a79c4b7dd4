// adopt, release, discard, map_file and unmap_file for Python, the same in both extensions (ebbtide._C and
// ebbtide._array).
//
// They speak of addresses: ebbtide/_adoption.py finds out those of arrays, and how long they live. Called without the
// GIL, because another thread's touch may need it.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "ebb/runtime.h"

namespace ebb::python {

/** Adds the five functions to `m`. `runtime` gives the extension's runtime, or throws if there is none. */
inline void bind_adoption(pybind11::module_& m, Runtime& (*runtime)()) {
  using Release = pybind11::call_guard<pybind11::gil_scoped_release>;
  static constexpr auto kSpan = [](std::uintptr_t address, std::size_t bytes) {
    return std::span<std::byte>(reinterpret_cast<std::byte*>(address), bytes);
  };
  m.def(
      "adopt",
      [runtime](std::uintptr_t address, std::size_t bytes) {
        const std::span<std::byte> adopted = runtime().adopt(kSpan(address, bytes));
        return std::pair(reinterpret_cast<std::uintptr_t>(adopted.data()), adopted.size());
      },
      Release());
  m.def(
      "release",
      [runtime](std::uintptr_t address, std::size_t bytes) { return runtime().release(kSpan(address, bytes)); },
      Release());
  m.def(
      "discard",
      [runtime](std::uintptr_t address, std::size_t bytes) { return runtime().discard(kSpan(address, bytes)); },
      Release());
  m.def(
      "map_file",
      [runtime](const std::string& path, std::uint64_t offset, std::uint64_t bytes) {
        const std::span<std::byte> mapped = runtime().map_file(path, offset, bytes);
        return std::pair(reinterpret_cast<std::uintptr_t>(mapped.data()), mapped.size());
      },
      Release());
  m.def(
      "unmap_file",
      [runtime](std::uintptr_t address, std::size_t bytes) { runtime().unmap_file(kSpan(address, bytes)); }, Release());
}

}  // namespace ebb::python
