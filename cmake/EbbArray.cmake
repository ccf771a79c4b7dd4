# ebb_array: n-dimensional arrays. Highway for the kernels, oneDNN for f32 matrix products and convolutions.
if(NOT EXISTS ${CMAKE_SOURCE_DIR}/src/array/graph/node.cc)
  return()
endif()
ebb_library(array DEPENDS base stream driver_cuda LIBRARIES ${HWY_LIBRARY})
add_library(Ebbtide::array ALIAS ebb_array)
target_include_directories(ebb_array SYSTEM PRIVATE ${HWY_INCLUDE_DIR})
# Threads of oneDNN are those of OpenMP, which ThreadSanitizer does not understand: our own kernels serve there.
if(EBB_ONEDNN AND NOT EBB_SANITIZE MATCHES "thread")
  target_include_directories(ebb_array SYSTEM PRIVATE ${DNNL_INCLUDE_DIR})
  target_compile_definitions(ebb_array PRIVATE EBB_ARRAY_ONEDNN)
  target_link_libraries(ebb_array PRIVATE ${DNNL_LIBRARY})
endif()
if(EBB_SANITIZE)
  target_compile_definitions(ebb_array PRIVATE EBB_ARRAY_ONE_TARGET)
endif()
# Loops over elements: vectorised also in the builds that optimize less, without errno and traps of mathematics, and
# never with a multiply-add that the source does not have (a combined operator gives the bits of the single ones).
file(GLOB ebb_array_kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/array/kernels/*.cc)
set(ebb_array_flags -fno-math-errno -fno-trapping-math -ffp-contract=off)
if(NOT EBB_SANITIZE)
  list(APPEND ebb_array_flags -O3)
endif()
set_source_files_properties(${ebb_array_kernels} PROPERTIES COMPILE_OPTIONS "${ebb_array_flags}")
