# The command line `ebb`: cli/main.cc over a library of the rest, so that cli/test can link the rest.
file(GLOB_RECURSE ebb_cli_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cli/*.cc)
list(FILTER ebb_cli_sources EXCLUDE REGEX "/cli/(main\\.cc|test/.*|.*/test/.*)$")
set(ebb_cli_libraries ebb ebb_sim ebb_trace ebb_bound fmt::fmt CLI11::CLI11 nlohmann_json::nlohmann_json)

if(ebb_cli_sources)
  add_library(ebb_cli STATIC ${ebb_cli_sources})
  target_include_directories(ebb_cli PUBLIC ${CMAKE_SOURCE_DIR}/cli)
  target_link_libraries(ebb_cli PUBLIC ${ebb_cli_libraries} PRIVATE ebb_flags)
  # Where a program that runs from the build tree finds the Python package; an installed one looks beside itself first.
  target_compile_definitions(ebb_cli PUBLIC EBB_VERSION="${PROJECT_VERSION}"
                                            EBB_PYTHON_DIR="${CMAKE_SOURCE_DIR}/python")
  # And libebb_calls.so: the same; beside libebb.a once installed, relative to the directory of `ebb`.
  file(RELATIVE_PATH calls_from_bin ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  target_compile_definitions(ebb_cli PRIVATE EBB_CALLS_INSTALLED="${calls_from_bin}/$<TARGET_FILE_NAME:ebb_calls>"
                                             EBB_CALLS_BUILT="$<TARGET_FILE:ebb_calls>")
  add_dependencies(ebb_cli ebb_calls)
endif()
if(EXISTS ${CMAKE_SOURCE_DIR}/cli/main.cc)
  add_executable(ebb_program ${CMAKE_SOURCE_DIR}/cli/main.cc)
  set_target_properties(ebb_program PROPERTIES OUTPUT_NAME ebb RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/cli)
  target_link_libraries(ebb_program PRIVATE $<TARGET_NAME_IF_EXISTS:ebb_cli> ${ebb_cli_libraries} ebb_flags)
endif()
