// Imports: the functions by which the libraries of this process call one another. The loader has written their
// addresses into tables of each library; redirect_imports() writes another there, so that libraries which were loaded
// long before us, as an OpenMP beside PyTorch, call us instead.
//
// Any thread. Libraries that are loaded later call what the loader finds. What is written stays until the process ends,
// and so must the library of `instead`.
#pragma once

#include <cstddef>

namespace ebb {

// How many tables had an entry of that name.
std::size_t redirect_imports(const char* name, const void* instead);

}  // namespace ebb
