# The command line `ebb`: cli/main.cc over a library of the rest, so that cli/test can link the rest.
file(GLOB_RECURSE ebb_cli_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cli/*.cc)
list(FILTER ebb_cli_sources EXCLUDE REGEX "/cli/(main\\.cc|test/.*|.*/test/.*)$")
set(ebb_cli_libraries ebb ebb_sim ebb_trace ebb_bound fmt::fmt CLI11::CLI11 nlohmann_json::nlohmann_json)

if(ebb_cli_sources)
  add_library(ebb_cli STATIC ${ebb_cli_sources})
  target_include_directories(ebb_cli PUBLIC ${CMAKE_SOURCE_DIR}/cli)
  target_link_libraries(ebb_cli PUBLIC ${ebb_cli_libraries} PRIVATE ebb_flags)
  # Where `ebb` finds the Python package and libebb_calls.so: from its own directory once installed (EbbLayout), else
  # where they were built. What pip built is gone by then, and its place may be anybody's.
  list(JOIN EBB_PACKAGE_FROM_BIN ":" package_from_bin)
  list(JOIN EBB_CALLS_FROM_BIN ":" calls_from_bin)
  set(package_built ${CMAKE_SOURCE_DIR}/python)
  set(calls_built $<TARGET_FILE:ebb_calls>)
  if(SKBUILD)
    set(package_built "")
    set(calls_built "")
  endif()
  target_compile_definitions(ebb_cli PRIVATE EBB_PACKAGE_INSTALLED="${package_from_bin}"
                                             EBB_PACKAGE_BUILT="${package_built}"
                                             EBB_CALLS_INSTALLED="${calls_from_bin}"
                                             EBB_CALLS_BUILT="${calls_built}"
                                     PUBLIC EBB_VERSION="${PROJECT_VERSION}")
  add_dependencies(ebb_cli ebb_calls)
  ebb_unite(ebb_cli)
endif()
if(EXISTS ${CMAKE_SOURCE_DIR}/cli/main.cc)
  add_executable(ebb_program ${CMAKE_SOURCE_DIR}/cli/main.cc)
  set_target_properties(ebb_program PROPERTIES OUTPUT_NAME ebb RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/cli)
  target_link_libraries(ebb_program PRIVATE $<TARGET_NAME_IF_EXISTS:ebb_cli> ${ebb_cli_libraries} ebb_flags)
endif()
