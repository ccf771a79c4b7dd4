# libebb_calls.so: stands before the C library's calls, and so needs nothing but the C library (no libstdc++, sanitizer
# or fortified headers), whatever the rest is built with.
file(GLOB ebb_calls_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/calls/*.cc
     ${CMAKE_SOURCE_DIR}/src/calls/entries/*.cc)
add_library(ebb_calls SHARED ${ebb_calls_sources})
add_library(Ebbtide::calls ALIAS ebb_calls)
target_include_directories(ebb_calls PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(ebb_calls PRIVATE -fno-exceptions -fno-rtti -fno-threadsafe-statics -O2 -U_FORTIFY_SOURCE
                                         -fno-sanitize=all
                                         -fno-delete-null-pointer-checks) # headers say nonnull; the kernel says EFAULT
target_link_libraries(ebb_calls PRIVATE ebb_flags ${CMAKE_DL_LIBS})
target_link_options(ebb_calls PRIVATE -fno-sanitize=all
                                      -Wl,--as-needed -Wl,-z,defs # the compiler's own libraries only if needed
                                      -Wl,--hash-style=both) # one of which counts the symbols (standing.cc)
set_target_properties(ebb_calls PROPERTIES EXPORT_NAME calls
                                           LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/calls)

# libebb_host.so, which libebb_calls.so loads into programs that have no runtime of their own.
if(NOT EBB_SANITIZE)
  add_library(ebb_host SHARED ${CMAKE_SOURCE_DIR}/src/host/host.cc)
  target_link_libraries(ebb_host PRIVATE ebb ebb_flags)
  set_target_properties(ebb_host PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/calls)
endif()
