# The Python extension ebbtide._array. Needs pybind11 in the Python of EBB_PYTHON, not torch.
if(EBB_SANITIZE OR NOT TARGET ebb_array)
  return()
endif()
list(GET EBB_PYBIND_ANSWER 0 ebb_pybind_include) # pip's isolated builds have it in a new place each time
if(NOT EBB_PYBIND_ASKED STREQUAL EBB_PYTHON OR NOT EXISTS "${ebb_pybind_include}")
  execute_process(
    COMMAND ${EBB_PYTHON} -c "import pybind11, sysconfig
print(pybind11.get_include()); print(sysconfig.get_path('include')); print(sysconfig.get_config_var('EXT_SUFFIX'))"
    OUTPUT_VARIABLE answer ERROR_VARIABLE complaint RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed)
    message(FATAL_ERROR "${EBB_PYTHON} has no pybind11: ${EBB_PYTHON} -m pip install pybind11\n${complaint}")
  endif()
  string(REPLACE "\n" ";" answer "${answer}")
  set(EBB_PYBIND_ANSWER "${answer}" CACHE INTERNAL "include directories of pybind11 and Python, suffix")
  set(EBB_PYBIND_ASKED "${EBB_PYTHON}" CACHE INTERNAL "The Python that gave EBB_PYBIND_ANSWER")
endif()
list(GET EBB_PYBIND_ANSWER 0 ebb_pybind_include)
list(GET EBB_PYBIND_ANSWER 1 ebb_python_include)
if(NOT EXISTS ${ebb_python_include}/Python.h)
  message(FATAL_ERROR "Python.h is not in ${ebb_python_include}: install the development files of this Python "
                      "(Debian, Ubuntu: sudo apt-get install python3-dev)")
endif()
list(GET EBB_PYBIND_ANSWER 2 ebb_python_suffix)
file(GLOB ebb_array_python_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/bindings/array/*.cc)
add_library(ebb_array_python MODULE ${ebb_array_python_sources})
target_include_directories(ebb_array_python PRIVATE ${CMAKE_SOURCE_DIR}/python)
target_include_directories(ebb_array_python SYSTEM PRIVATE ${ebb_pybind_include} ${ebb_python_include})
target_link_libraries(ebb_array_python PRIVATE ebb_array ebb ebb_flags)
ebb_unite(ebb_array_python)
set_target_properties(ebb_array_python PROPERTIES PREFIX "" OUTPUT_NAME _array SUFFIX "${ebb_python_suffix}"
                      LIBRARY_OUTPUT_DIRECTORY ${EBB_PACKAGE_DIR})
