# What Ebbtide is made from: a compiler and libraries. All that is missing is named at once, with the packages that
# have it; what only the tests and benchmarks need is looked for there.
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
endif()

find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(LIBURING QUIET IMPORTED_TARGET liburing)
  pkg_check_modules(ZLIB QUIET IMPORTED_TARGET zlib)
  pkg_check_modules(ZSTD QUIET IMPORTED_TARGET libzstd)
  pkg_check_modules(CLP QUIET IMPORTED_TARGET clp)
endif()
find_package(nlohmann_json QUIET)
find_path(XXHASH_INCLUDE_DIR xxhash.h)
find_path(OPENCL_INCLUDE_DIR CL/cl.h) # the header alone: the library of OpenCL is found at run time
# What has to be true, and the package of Debian and Ubuntu that makes it so.
set(ebb_needs
    CMAKE_CXX_COMPILER g++
    PKG_CONFIG_FOUND pkg-config
    LIBURING_FOUND liburing-dev
    ZLIB_FOUND zlib1g-dev
    ZSTD_FOUND libzstd-dev
    CLP_FOUND coinor-libclp-dev
    nlohmann_json_FOUND nlohmann-json3-dev
    XXHASH_INCLUDE_DIR libxxhash-dev
    OPENCL_INCLUDE_DIR opencl-headers)
if(EBB_CLI)
  find_package(fmt QUIET)
  find_package(CLI11 QUIET)
  list(APPEND ebb_needs fmt_FOUND libfmt-dev CLI11_FOUND libcli11-dev)
endif()
if(EXISTS ${CMAKE_SOURCE_DIR}/src/array)
  find_path(HWY_INCLUDE_DIR hwy/highway.h)
  find_library(HWY_LIBRARY hwy)
  list(APPEND ebb_needs HWY_INCLUDE_DIR libhwy-dev HWY_LIBRARY libhwy-dev)
  if(EBB_ONEDNN)
    find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
    find_library(DNNL_LIBRARY dnnl)
    list(APPEND ebb_needs DNNL_INCLUDE_DIR libdnnl-dev DNNL_LIBRARY libdnnl-dev)
  endif()
endif()

set(ebb_missing "")
while(ebb_needs)
  list(POP_FRONT ebb_needs ebb_condition ebb_package)
  if(NOT ${ebb_condition} OR NOT CMAKE_CXX_COMPILER) # without a compiler CMake does not know where libraries are
    list(APPEND ebb_missing ${ebb_package})
  endif()
endwhile()
if(ebb_missing)
  list(REMOVE_DUPLICATES ebb_missing)
  list(JOIN ebb_missing " " ebb_missing)
  message(FATAL_ERROR "Ebbtide cannot be built here yet. On Debian and Ubuntu this installs what is missing:\n"
                      "  sudo apt-get install ${ebb_missing}\n"
                      "Elsewhere install the compiler (C++20) and the libraries that these packages stand for.")
endif()
find_package(Threads REQUIRED)
