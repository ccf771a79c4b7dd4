# Tests, found by their names:
#   src/<folder>/test/*_test.cc   one GoogleTest program per folder, label fast
#   src/<folder>/test/*_fuzz.cc   op-fuzzers with a main of their own that take --seed and --runs, label sim
#   src/<folder>/test/*.cc        what both share
#   tests/conformance/*.cc        every port implementation against one suite, label fast
#   cli/test/*_test.cc            the parts of the command line, label fast
#   tests/interleaving/           orders of threads, label fast
#   tests/cuda/*/*_test.cc        the CUDA driver and what is on it, on the software driver in tests/cuda/soft
#   tests/opencl/*.cc             the OpenCL driver, through the library in tests/opencl/layer, on PoCL; under
#                                 sanitizers on the software OpenCL in tests/opencl/soft
find_package(GTest REQUIRED)
find_package(rapidcheck QUIET)
include(GoogleTest)

function(ebb_gtest name)
  cmake_parse_arguments(ARG "SERIAL" "ENVIRONMENT" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ebb_flags ${ARG_LIBRARIES} $<TARGET_NAME_IF_EXISTS:rapidcheck>
                                        $<TARGET_NAME_IF_EXISTS:rapidcheck_gtest> GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  gtest_discover_tests(${name} TEST_PREFIX "${name}." NO_PRETTY_VALUES DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} PROPERTIES LABELS fast RUN_SERIAL ${ARG_SERIAL}
                                  ENVIRONMENT "${ARG_ENVIRONMENT}")
endfunction()

function(ebb_fuzzer name)
  cmake_parse_arguments(ARG "" "RUNS" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT ARG_RUNS)
    set(ARG_RUNS ${EBB_FUZZ_RUNS})
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ebb_flags ${ARG_LIBRARIES} $<TARGET_NAME_IF_EXISTS:rapidcheck> GTest::gtest)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} --seed 1 --runs ${ARG_RUNS} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS sim SKIP_RETURN_CODE 77)
endfunction()

# The tests of one folder: `folder` relative to src/, `name` that of its target without ebb_.
function(ebb_folder_tests folder name)
  set(where ${CMAKE_SOURCE_DIR}/src/${folder}/test)
  file(GLOB tests CONFIGURE_DEPENDS ${where}/*_test.cc)
  file(GLOB fuzzers CONFIGURE_DEPENDS ${where}/*_fuzz.cc)
  file(GLOB shared CONFIGURE_DEPENDS ${where}/*.cc)
  list(FILTER shared EXCLUDE REGEX "_(test|fuzz|bench)\\.cc$")
  set(libraries ebb_${name} ebb_sim)
  set(serial "")
  if(name STREQUAL "mirror")
    set(libraries ebb_mirror) # knows nothing of the core
    set(serial SERIAL)        # what forks and remaps beside others wants the machine for itself
  endif()
  if(tests)
    ebb_gtest(${name}_test ${serial} SOURCES ${tests} ${shared} LIBRARIES ${libraries})
  endif()
  list(LENGTH fuzzers count)
  foreach(fuzzer ${fuzzers})
    cmake_path(GET fuzzer STEM program)
    if(count EQUAL 1)
      set(program ${name}_fuzz)
    endif()
    ebb_fuzzer(${program} SOURCES ${fuzzer} ${shared} LIBRARIES ${libraries})
  endforeach()
endfunction()

set(folders_of_one_thread base job port space alloc plan rivals trace bound move core sim)
set(folders_of_threads runtime stream array)
file(GLOB scenarios CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/scenario/*.json
     ${CMAKE_SOURCE_DIR}/tests/scenario/found/*.json)
if(EBB_SANITIZE MATCHES "thread")
  # The core has no threads: the sanitizer would find nothing there, slowly.
  set(folders_of_one_thread)
  set(scenarios)
endif()
foreach(folder ${folders_of_one_thread} ${folders_of_threads})
  ebb_folder_tests(${folder} ${folder})
endforeach()
if(TARGET ebb_mirror)
  ebb_folder_tests(mirror mirror)
endif()
# Scenarios: workload, faults and limits as data, run by the fuzzer of the core; those in found/ have failed once.
foreach(scenario ${scenarios})
  cmake_path(GET scenario STEM scenario_name)
  add_test(NAME scenario.${scenario_name} COMMAND core_fuzz --scenario ${scenario} --runs ${EBB_SCENARIO_RUNS}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(scenario.${scenario_name} PROPERTIES LABELS sim)
endforeach()
# CUDA C is compiled where NVRTC is: PyTorch for CUDA brings it into its Python.
set(nvrtc "")
if(EBB_PYTHON)
  cmake_path(GET EBB_PYTHON PARENT_PATH python_folder)
  file(GLOB nvrtc ${python_folder}/../lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.*)
  if(nvrtc)
    list(GET nvrtc 0 nvrtc)
  endif()
endif()
if(TARGET array_test)
  target_compile_definitions(array_test PRIVATE EBB_NVRTC="${nvrtc}")
  target_link_libraries(array_test PRIVATE ${CMAKE_DL_LIBS})
endif()
# Loaded by tests of the runtime that a program's own calls reach.
if(TARGET runtime_test)
  target_compile_definitions(runtime_test PRIVATE EBB_CALLS="$<TARGET_FILE:ebb_calls>")
  add_dependencies(runtime_test ebb_calls)
endif()
# Linked like any program that asks for it: before the C library.
file(GLOB calls_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/calls/test/*.cc)
ebb_gtest(calls_test SOURCES ${calls_tests} LIBRARIES Ebbtide::calls Threads::Threads)
target_include_directories(calls_test PRIVATE ${CMAKE_SOURCE_DIR}/src)
ebb_folder_tests(drivers/linux driver_linux)
# Loaded late by a test, as by a Python that calls enable() itself.
target_compile_definitions(driver_linux_test PRIVATE EBB_CALLS="$<TARGET_FILE:ebb_calls>")
add_dependencies(driver_linux_test ebb_calls)
# Its tests let the kernel refuse what it never refuses when asked to: refused_calls.h.
if(NOT EBB_SANITIZE) # whose libraries wrap these calls themselves
  foreach(call ioctl syscall usleep)
    target_link_options(driver_linux_test PRIVATE -Wl,--wrap=${call})
  endforeach()
endif()
ebb_folder_tests(drivers/uring driver_uring)

# CUDA on a software driver: a library of its own, loaded as NVIDIA's is, so that these tests need no GPU.
file(GLOB soft_cuda CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/cuda/soft/*.cc)
add_library(cuda_soft SHARED ${soft_cuda})
target_include_directories(cuda_soft PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(cuda_soft PRIVATE ebb_flags Threads::Threads)
set_target_properties(cuda_soft PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
# NVRTC, with this machine's compiler, and cuBLAS on that driver.
set(host_compiler ${CMAKE_SOURCE_DIR}/tests/host_compiler.cc)
foreach(library nvrtc cublas)
  set(soft_parts ${CMAKE_SOURCE_DIR}/tests/cuda/soft/libraries/soft_${library}.cc)
  if(library STREQUAL "nvrtc")
    list(APPEND soft_parts ${host_compiler})
  endif()
  add_library(${library}_soft SHARED ${soft_parts})
  target_include_directories(${library}_soft PRIVATE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}/tests/cuda)
  target_link_libraries(${library}_soft PRIVATE ebb_flags)
  set_target_properties(${library}_soft PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endforeach()
target_compile_definitions(nvrtc_soft PRIVATE EBB_SOFT_CXX="${CMAKE_CXX_COMPILER}"
                           EBB_SOFT_FOLDER="${CMAKE_BINARY_DIR}/tests/soft_nvrtc"
                           EBB_SOFT_MATH="${CMAKE_SOURCE_DIR}/tests/soft_math.h"
                           EBB_SOFT_PRELUDE="${CMAKE_SOURCE_DIR}/tests/cuda/soft/libraries/soft_prelude.h")
target_link_libraries(cublas_soft PRIVATE cuda_soft)
file(GLOB cuda_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/cuda/*/*_test.cc)
if(NOT TARGET ebb_array)
  list(FILTER cuda_tests EXCLUDE REGEX "/array_test\\.cc$")
endif()
ebb_gtest(cuda_test SOURCES ${cuda_tests} LIBRARIES $<TARGET_NAME_IF_EXISTS:ebb_array> ebb ebb_sim cuda_soft)
add_dependencies(cuda_test nvrtc_soft cublas_soft)
target_compile_definitions(cuda_test PRIVATE EBB_NVRTC="${nvrtc}")
math(EXPR cuda_fuzz_runs "${EBB_FUZZ_RUNS} / 5") # a run is larger than those of the core
ebb_fuzzer(cuda_fuzz RUNS ${cuda_fuzz_runs} SOURCES ${CMAKE_SOURCE_DIR}/tests/cuda/runtime/device_fuzz.cc
           LIBRARIES ebb cuda_soft)
add_executable(gpu_bench ${CMAKE_SOURCE_DIR}/tests/cuda/device/gpu_bench.cc
                         ${CMAKE_SOURCE_DIR}/tests/cuda/device/gpu_costs.cc)
target_link_libraries(gpu_bench PRIVATE ebb ebb_flags)
set_target_properties(gpu_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

add_executable(gpu_replay ${CMAKE_SOURCE_DIR}/tests/cuda/runtime/gpu_replay.cc)
target_link_libraries(gpu_replay PRIVATE ebb ebb_rivals ebb_trace ebb_flags)
set_target_properties(gpu_replay PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

# The tests of arrays anywhere, with a GPU as the place of new ones. Of one thread but for streams, which cuda_test has.
if(TARGET ebb_array AND NOT EBB_SANITIZE MATCHES "thread")
  ebb_gtest(cuda_operations_test SOURCES ${CMAKE_SOURCE_DIR}/tests/cuda/kernels/array_environment.cc
            ${CMAKE_SOURCE_DIR}/src/array/test/operations_test.cc ${CMAKE_SOURCE_DIR}/src/array/test/reduce_test.cc
            LIBRARIES ebb_array ebb cuda_soft)
  add_dependencies(cuda_operations_test nvrtc_soft cublas_soft)
endif()
foreach(program cuda_test cuda_fuzz cuda_operations_test)
  if(TARGET ${program})
    target_include_directories(${program} PRIVATE ${CMAKE_SOURCE_DIR}/tests/cuda)
    target_compile_definitions(${program} PRIVATE EBB_SOFT_CUDA="$<TARGET_FILE:cuda_soft>"
                               EBB_SOFT_NVRTC="$<TARGET_FILE:nvrtc_soft>"
                               EBB_SOFT_CUBLAS="$<TARGET_FILE:cublas_soft>")
  endif()
endforeach()

# A device of PyTorch's on the same driver, for the tests of the adapter. Never installed.
if(TARGET ebb_adapter)
  file(GLOB soft_device CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/cuda/torch/*.cc)
  ebb_torch_extension(soft_device _soft_device ${CMAKE_BINARY_DIR}/tests ${soft_device})
  target_include_directories(soft_device PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include
                                                 ${CMAKE_SOURCE_DIR}/tests/cuda)
  target_link_libraries(soft_device PRIVATE cuda_soft)
endif()

# OpenCL through a layer: a library that stands between the driver and whatever OpenCL this machine has.
file(GLOB opencl_layer CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/opencl/layer/*.cc)
add_library(opencl_layer SHARED ${opencl_layer})
target_include_directories(opencl_layer PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
target_include_directories(opencl_layer SYSTEM PRIVATE ${OPENCL_INCLUDE_DIR})
target_link_libraries(opencl_layer PRIVATE ebb_flags ${CMAKE_DL_LIBS})
set_target_properties(opencl_layer PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
# Under sanitizers that is one of our own: a compiler inside the process, as PoCL has, is more than they can follow.
if(EBB_SANITIZE)
  file(GLOB opencl_soft CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/opencl/soft/*.cc)
  add_library(opencl_soft SHARED ${opencl_soft} ${host_compiler})
  target_include_directories(opencl_soft PRIVATE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}/src
                                                 ${CMAKE_SOURCE_DIR}/include)
  target_include_directories(opencl_soft SYSTEM PRIVATE ${OPENCL_INCLUDE_DIR})
  target_link_libraries(opencl_soft PRIVATE ebb_flags Threads::Threads ${CMAKE_DL_LIBS})
  set_target_properties(opencl_soft PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_compile_definitions(opencl_soft PRIVATE EBB_SOFT_CXX="${CMAKE_CXX_COMPILER}"
                             EBB_SOFT_FOLDER="${CMAKE_BINARY_DIR}/tests/soft_opencl"
                             EBB_SOFT_MATH="${CMAKE_SOURCE_DIR}/tests/soft_math.h"
                             EBB_SOFT_PRELUDE="${CMAKE_SOURCE_DIR}/tests/opencl/soft/soft_prelude.h")
  set(opencl_beneath $<TARGET_FILE:opencl_soft>)
  add_dependencies(opencl_layer opencl_soft)
else()
  set(opencl_beneath libOpenCL.so.1)
endif()
target_compile_definitions(opencl_layer PRIVATE EBB_OPENCL_BENEATH="${opencl_beneath}")
file(GLOB opencl_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/opencl/*.cc)
if(NOT TARGET ebb_mirror)
  list(FILTER opencl_tests EXCLUDE REGEX "/managed_test\\.cc$")
endif()
if(NOT TARGET ebb_array)
  list(FILTER opencl_tests EXCLUDE REGEX "/(array|operators)_test\\.cc$")
endif()
# PoCL keeps what it compiled: not where its user's is.
ebb_gtest(opencl_test ENVIRONMENT POCL_CACHE_DIR=${CMAKE_BINARY_DIR}/tests/pocl SOURCES ${opencl_tests}
          LIBRARIES $<TARGET_NAME_IF_EXISTS:ebb_array> ebb ${CMAKE_DL_LIBS})
target_compile_definitions(opencl_test PRIVATE EBB_OPENCL_LAYER="$<TARGET_FILE:opencl_layer>"
                           EBB_OPENCL_BENEATH="${opencl_beneath}")
add_dependencies(opencl_test opencl_layer)

file(GLOB conformance CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/conformance/*.cc)
if(conformance)
  ebb_gtest(conformance_test SOURCES ${conformance} LIBRARIES ebb ebb_sim)
endif()

file(GLOB cli_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cli/test/*.cc)
if(cli_tests AND TARGET ebb_cli)
  ebb_gtest(cli_test SOURCES ${cli_tests} LIBRARIES ebb_cli)
endif()

# Orders of threads: code of ours, compiled for a thread sanitizer, which is the test itself (0024).
if(NOT EBB_SANITIZE)
  set(here ${CMAKE_SOURCE_DIR}/tests/interleaving)
  file(GLOB explorer CONFIGURE_DEPENDS ${here}/explorer/*.cc)
  add_library(interleaving STATIC ${explorer})
  target_include_directories(interleaving PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(interleaving PRIVATE ebb_flags)
  target_compile_options(interleaving PRIVATE -O2)
  # Optimized in every build: what is not inlined could come from a file that was compiled without.
  set(explored -fsanitize=thread -O2 -fno-builtin-memcpy -Wno-tsan)
  # ebb::check_failed() by its name to the linker.
  set(explored_calls memcpy pthread_mutex_lock pthread_mutex_trylock pthread_mutex_unlock sched_yield syscall
                     _ZN3ebb12check_failedEPKciS1_mm)

  # The Gate on a simulated kernel, whose headers come first.
  add_library(interleaving_gate OBJECT ${here}/gate_test.cc ${CMAKE_SOURCE_DIR}/src/drivers/linux/userfault/gate.cc)
  target_compile_options(interleaving_gate PRIVATE ${explored} -iquote ${here}/kernel)
  target_include_directories(interleaving_gate PRIVATE ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(interleaving_gate PRIVATE ebb_flags interleaving GTest::gtest)

  file(GLOB interleaving_tests CONFIGURE_DEPENDS ${here}/*_test.cc)
  list(REMOVE_ITEM interleaving_tests ${here}/gate_test.cc)
  set(runtime ${CMAKE_SOURCE_DIR}/src/runtime)
  ebb_gtest(interleaving_test
            SOURCES ${interleaving_tests} $<TARGET_OBJECTS:interleaving_gate> ${runtime}/cache/range_cache.cc
                    ${runtime}/cache/thread_ranges.cc ${runtime}/fork/fork_board.cc ${runtime}/stats_file.cc
                    ${runtime}/waits/wait_ledger.cc ${CMAKE_SOURCE_DIR}/cli/run/stats_reader.cc
            LIBRARIES interleaving ebb_alloc ebb_driver_linux ebb_base)
  target_include_directories(interleaving_test PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/cli)
  target_compile_options(interleaving_test PRIVATE ${explored})
  foreach(call ${explored_calls} pread)
    target_link_options(interleaving_test PRIVATE -Wl,--wrap=${call})
  endforeach()

  # The runtime with its threads, and with the standard library's calls; without what opens one with real drivers.
  file(GLOB runtime_sources CONFIGURE_DEPENDS ${runtime}/managed_runtime*.cc ${runtime}/adopt/*.cc ${runtime}/cache/*.cc
       ${runtime}/fork/*.cc ${runtime}/job/*.cc ${runtime}/passes/*.cc ${runtime}/waits/*.cc)
  ebb_gtest(runtime_orders_test SOURCES ${here}/runtime/runtime_orders_test.cc ${runtime_sources}
                                        ${runtime}/stats_file.cc ${runtime}/tell.cc
            LIBRARIES interleaving ebb_sim ebb_core ebb_job ebb_trace ebb_driver_linux nlohmann_json::nlohmann_json)
  target_compile_options(runtime_orders_test PRIVATE ${explored})
  target_link_options(runtime_orders_test PRIVATE -static-libstdc++)
  foreach(call ${explored_calls} pthread_create pthread_join pthread_cond_wait pthread_cond_clockwait
          pthread_cond_signal pthread_cond_broadcast clock_gettime usleep)
    target_link_options(runtime_orders_test PRIVATE -Wl,--wrap=${call})
  endforeach()
endif()
