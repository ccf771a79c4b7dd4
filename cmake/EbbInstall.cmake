# What is installed, and where is in EbbLayout. `ebb`, the Python package and the libraries that `ebb run` loads; and in
# a prefix also the C++ library: headers, archives, a CMake package (find_package(Ebbtide)) and a file for pkg-config,
# which are the component dev (EbbPackage).
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME program)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/python/ebbtide/ DESTINATION ${EBB_PACKAGE_DESTINATION}
        FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE PATTERN "_built_for.py" EXCLUDE)
foreach(extension ebb_adapter ebb_array_python)
  if(TARGET ${extension})
    install(TARGETS ${extension} LIBRARY DESTINATION ${EBB_PACKAGE_DESTINATION})
  endif()
endforeach()
foreach(minor ${EBB_PACKED_ADAPTERS})
  install(TARGETS ebb_adapter_${minor} LIBRARY DESTINATION ${EBB_PACKAGE_DESTINATION}/adapters/${minor})
endforeach()
if(TARGET ebb_adapter)
  install(FILES ${EBB_PACKAGE_DIR}/_built_for.py DESTINATION ${EBB_PACKAGE_DESTINATION})
endif()
if(TARGET ebb_program)
  install(TARGETS ebb_program RUNTIME DESTINATION ${EBB_BIN_DESTINATION})
endif()
install(TARGETS ebb_calls EXPORT Ebbtide LIBRARY DESTINATION ${EBB_CALLS_DESTINATION})
if(TARGET ebb_host)
  install(TARGETS ebb_host LIBRARY DESTINATION ${EBB_CALLS_DESTINATION})
endif()
if(EBB_SANITIZE)
  return()
endif()
include(EbbReference)
if(SKBUILD)
  return()
endif()
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME dev)

# One archive of all parts. Static, because the interface is C++ without a promise about its binary form: a program is
# built again with a new Ebbtide anyway, and needs nothing of it at run time.
get_property(ebb_parts GLOBAL PROPERTY EBB_STATIC_TARGETS)
list(REMOVE_ITEM ebb_parts ebb_sim ebb_bound ebb_array)
list(TRANSFORM ebb_parts REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE ebb_objects)
add_library(ebb_archive STATIC ${ebb_objects})
set_target_properties(ebb_archive PROPERTIES OUTPUT_NAME ebb EXPORT_NAME ebb LINKER_LANGUAGE CXX)
target_include_directories(ebb_archive INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(ebb_archive INTERFACE cxx_std_20)
target_link_libraries(ebb_archive INTERFACE PkgConfig::LIBURING PkgConfig::ZLIB PkgConfig::ZSTD Threads::Threads
                                            ${CMAKE_DL_LIBS})
install(TARGETS ebb_archive EXPORT Ebbtide ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
# Arrays are a library of their own: they bring Highway and oneDNN, which the runtime does not need.
if(TARGET ebb_array)
  add_library(ebb_array_archive STATIC $<TARGET_OBJECTS:ebb_array>)
  set_target_properties(ebb_array_archive PROPERTIES OUTPUT_NAME ebb_array EXPORT_NAME array LINKER_LANGUAGE CXX
                        ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/archive) # the one of the build has this name too
  target_link_libraries(ebb_array_archive INTERFACE ebb_archive hwy $<$<BOOL:${EBB_ONEDNN}>:dnnl>)
  install(TARGETS ebb_array_archive EXPORT Ebbtide ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

set(ebb_headers PATTERN "*.h")
if(NOT EBB_MIRROR)
  set(ebb_headers REGEX "/mirror\\.h$" EXCLUDE PATTERN "*.h")
endif()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/ebb DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING ${ebb_headers})

include(CMakePackageConfigHelpers)
set(ebb_cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Ebbtide)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/EbbtideConfig.cmake.in ${CMAKE_BINARY_DIR}/EbbtideConfig.cmake
                              INSTALL_DESTINATION ${ebb_cmake_folder} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/EbbtideConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT Ebbtide NAMESPACE Ebbtide:: FILE EbbtideTargets.cmake DESTINATION ${ebb_cmake_folder})
install(FILES ${CMAKE_BINARY_DIR}/EbbtideConfig.cmake ${CMAKE_BINARY_DIR}/EbbtideConfigVersion.cmake
        DESTINATION ${ebb_cmake_folder})
# From where the file lies, as `cmake --install --prefix` may choose another prefix than this one.
file(RELATIVE_PATH ebb_prefix_from_pc ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${CMAKE_SOURCE_DIR}/cmake/ebbtide.pc.in ${CMAKE_BINARY_DIR}/ebbtide.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/ebbtide.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
include(EbbPackage)
