# The PyTorch adapter: the Python extension ebbtide._C, for the Python in EBB_PYTHON and the torch that it has.
#
# find_package(Torch) is not used: it insists on the CUDA toolkit that the wheel was built with.
file(GLOB ebb_adapter_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/bindings/torch/*.cc
     ${CMAKE_SOURCE_DIR}/python/bindings/torch_device/*.cc)
if(NOT ebb_adapter_sources)
  return()
endif()
if(EBB_SANITIZE)
  message(STATUS "PyTorch adapter: not built with sanitizers, because Python and torch have none")
  return()
endif()

# Importing torch takes seconds: the answer is kept until EBB_PYTHON or what it said changes.
list(GET EBB_TORCH_ANSWER 0 ebb_torch_marker)
if(NOT EBB_TORCH_ASKED STREQUAL EBB_PYTHON OR NOT EXISTS "${ebb_torch_marker}")
  message(STATUS "PyTorch adapter: asking ${EBB_PYTHON} about torch")
  # pip isolates a build by variables such as PYTHONPATH, which hide the packages of the environment that it installs
  # into; -E ignores them. (Other front ends make an environment for the build: there it takes --no-build-isolation.)
  set(no_torch 3)
  foreach(options "" -E)
    execute_process(COMMAND ${EBB_PYTHON} ${options} ${CMAKE_SOURCE_DIR}/cmake/ask_torch.py OUTPUT_VARIABLE answer
                    ERROR_VARIABLE complaint RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT failed EQUAL no_torch)
      break()
    endif()
  endforeach()
  if(failed EQUAL no_torch)
    message(WARNING "PyTorch adapter: not built, because ${EBB_PYTHON} has no torch")
    return()
  elseif(failed)
    message(FATAL_ERROR "PyTorch adapter: ${EBB_PYTHON} has a torch that cannot be used:\n${complaint}")
  endif()
  string(REPLACE "\n" ";" answer "${answer}")
  set(EBB_TORCH_ANSWER "${answer}" CACHE INTERNAL "marker file, suffix, ABI, library directory, include directories")
  set(EBB_TORCH_ASKED "${EBB_PYTHON}" CACHE INTERNAL "The Python that gave EBB_TORCH_ANSWER")
endif()
list(GET EBB_TORCH_ANSWER 0 ebb_torch_marker)
list(GET EBB_TORCH_ANSWER 1 ebb_suffix)
list(GET EBB_TORCH_ANSWER 2 ebb_cxx11_abi)
list(GET EBB_TORCH_ANSWER 3 ebb_torch_libraries)
list(SUBLIST EBB_TORCH_ANSWER 4 -1 ebb_torch_includes)
if(NOT ebb_cxx11_abi EQUAL 1)
  message(FATAL_ERROR "This torch uses the C++ ABI of before C++11; install an official build of torch 2.7 or newer")
endif()

# A Python extension of this torch, `name` in `folder`.
function(ebb_torch_extension target name folder)
  add_library(${target} MODULE ${ARGN})
  target_include_directories(${target} SYSTEM PRIVATE ${ebb_torch_includes})
  target_compile_definitions(${target} PRIVATE NDEBUG TORCH_API_INCLUDE_EXTENSION_H TORCH_EXTENSION_NAME=${name})
  target_link_libraries(${target} PRIVATE ebb_flags)
  foreach(library torch torch_cpu c10 torch_python)
    target_link_libraries(${target} PRIVATE ${ebb_torch_libraries}/lib${library}.so)
  endforeach()
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${name} SUFFIX "${ebb_suffix}"
                        LIBRARY_OUTPUT_DIRECTORY ${folder})
endfunction()

ebb_torch_extension(ebb_adapter _C ${EBB_PACKAGE_DIR} ${ebb_adapter_sources})
target_include_directories(ebb_adapter PRIVATE ${CMAKE_SOURCE_DIR}/python)
target_link_libraries(ebb_adapter PRIVATE ebb)
# What a torch with another interface is told from.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ebb_torch_marker})
file(STRINGS ${ebb_torch_marker} ebb_torch_version REGEX "^__version__ = ")
file(CONFIGURE OUTPUT ${EBB_PACKAGE_DIR}/_built_for.py CONTENT
     "\"\"\"The torch that _C was compiled with.\"\"\"\n\n@ebb_torch_version@\n" @ONLY)
