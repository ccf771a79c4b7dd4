# `cmake --install build/release`: bin/ebb, libebb_calls.so, one libebb.a with everything in it, the public headers, a
# CMake package (find_package(Ebbtide), targets Ebbtide::ebb and Ebbtide::calls), and the Python package where an
# installed `ebb` looks for it.
get_property(ebb_parts GLOBAL PROPERTY EBB_STATIC_TARGETS)
list(REMOVE_ITEM ebb_parts ebb_sim ebb_bound ebb_array)
if(ebb_parts AND NOT EBB_SANITIZE)
  list(TRANSFORM ebb_parts REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE ebb_objects)
  add_library(ebb_archive STATIC ${ebb_objects})
  set_target_properties(ebb_archive PROPERTIES OUTPUT_NAME ebb EXPORT_NAME ebb LINKER_LANGUAGE CXX)
  target_include_directories(ebb_archive INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(ebb_archive INTERFACE cxx_std_20)
  target_link_libraries(ebb_archive INTERFACE uring pthread z zstd ${CMAKE_DL_LIBS})
  # Arrays are a library of their own: they bring Highway and oneDNN, which the runtime does not need.
  add_library(ebb_array_archive STATIC $<TARGET_OBJECTS:ebb_array>)
  set_target_properties(ebb_array_archive PROPERTIES OUTPUT_NAME ebb_array EXPORT_NAME array LINKER_LANGUAGE CXX
                        ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/archive) # the one of the build has this name too
  target_link_libraries(ebb_array_archive INTERFACE ebb_archive hwy dnnl)
  install(TARGETS ebb_array_archive EXPORT Ebbtide ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(TARGETS ebb_archive EXPORT Ebbtide ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT Ebbtide NAMESPACE Ebbtide:: FILE EbbtideConfig.cmake
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Ebbtide)
endif()
set(ebb_headers PATTERN "*.h")
if(NOT EBB_MIRROR)
  set(ebb_headers REGEX "/mirror\\.h$" EXCLUDE PATTERN "*.h")
endif()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/ebb DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING ${ebb_headers})
install(TARGETS ebb_calls EXPORT Ebbtide LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET ebb_host)
  install(TARGETS ebb_host LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET ebb_program)
  install(TARGETS ebb_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/python/ebbtide DESTINATION share/ebbtide/python
        FILES_MATCHING PATTERN "*.py" PATTERN "*.so" PATTERN "__pycache__" EXCLUDE)
