# The PyTorch adapter: the Python extension ebbtide._C, for the Python in EBB_PYTHON and the torch that it has; or, for
# wheels, one for each of the torchs in EBB_TORCHES, which cannot be imported.
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

# `answer` is what ask_torch.py says, with the arguments that follow; `failed` its exit code, `complaint` its stderr.
macro(ebb_ask_torch)
  execute_process(COMMAND ${EBB_PYTHON} ${ARGN} OUTPUT_VARIABLE answer ERROR_VARIABLE complaint RESULT_VARIABLE failed
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REPLACE "\n" ";" answer "${answer}")
endmacro()

# The answer's values, for ebb_torch_extension().
macro(ebb_take_torch)
  set(ebb_torch_answer ${ARGN})
  list(GET ebb_torch_answer 0 ebb_torch_marker)
  list(GET ebb_torch_answer 1 ebb_suffix)
  list(GET ebb_torch_answer 2 ebb_cxx11_abi)
  list(GET ebb_torch_answer 3 ebb_torch_libraries)
  list(SUBLIST ebb_torch_answer 4 -1 ebb_torch_includes)
  if(NOT ebb_cxx11_abi EQUAL 1)
    message(FATAL_ERROR "This torch uses the C++ ABI of before C++11; install an official build of torch 2.7 or newer")
  endif()
  # What a torch with another interface is told from.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ebb_torch_marker})
  file(STRINGS ${ebb_torch_marker} ebb_torch_version REGEX "^__version__ = ")
endmacro()

# A Python extension of the torch that was taken, `name` in `folder`.
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

function(ebb_adapter_extension target folder)
  ebb_torch_extension(${target} _C ${folder} ${ebb_adapter_sources})
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/python)
  target_link_libraries(${target} PRIVATE ebb)
  ebb_unite(${target})
endfunction()

# Each in a folder named after the minor version that it fits; ebbtide/torch/extension.py chooses.
foreach(torch ${EBB_TORCHES})
  ebb_ask_torch(${CMAKE_SOURCE_DIR}/cmake/ask_torch.py ${torch})
  if(failed)
    message(FATAL_ERROR "PyTorch adapter: ${torch} cannot be used:\n${complaint}")
  endif()
  ebb_take_torch(${answer})
  string(REGEX MATCH "[0-9]+\\.[0-9]+" minor "${ebb_torch_version}")
  list(APPEND EBB_PACKED_ADAPTERS ${minor})
  ebb_adapter_extension(ebb_adapter_${minor} ${CMAKE_BINARY_DIR}/adapters/${minor})
endforeach()
if(EBB_TORCHES)
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
    ebb_ask_torch(${options} ${CMAKE_SOURCE_DIR}/cmake/ask_torch.py)
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
  set(EBB_TORCH_ANSWER "${answer}" CACHE INTERNAL "marker file, suffix, ABI, library directory, include directories")
  set(EBB_TORCH_ASKED "${EBB_PYTHON}" CACHE INTERNAL "The Python that gave EBB_TORCH_ANSWER")
endif()
ebb_take_torch(${EBB_TORCH_ANSWER})
ebb_adapter_extension(ebb_adapter ${EBB_PACKAGE_DIR})
file(CONFIGURE OUTPUT ${EBB_PACKAGE_DIR}/_built_for.py CONTENT
     "\"\"\"The torch that _C was compiled with.\"\"\"\n\n@ebb_torch_version@\n" @ONLY)
