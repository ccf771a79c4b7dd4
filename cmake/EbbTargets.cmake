# ebb_library(): the target of one folder of src/.

# ebb_library(NAME [FOLDER dir] [DEPENDS names…] [INTERNALLY names…] [LIBRARIES targets…])
#   DEPENDS     other folders that this one's headers include
#   INTERNALLY  folders that only its .cc files include
# A folder without .cc files, or a missing one, makes a header-only target: deleting it breaks only who includes it.
function(ebb_library name)
  cmake_parse_arguments(ARG "" "FOLDER" "DEPENDS;INTERNALLY;LIBRARIES" ${ARGN})
  if(NOT ARG_FOLDER)
    set(ARG_FOLDER ${name})
  endif()
  list(TRANSFORM ARG_DEPENDS PREPEND ebb_)
  list(TRANSFORM ARG_INTERNALLY PREPEND ebb_)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${ARG_FOLDER}/*.cc)
  set(target ebb_${name})
  if(sources)
    add_library(${target} STATIC ${sources})
    target_link_libraries(${target} PUBLIC ${ARG_DEPENDS} ${ARG_LIBRARIES} Threads::Threads
                                    PRIVATE ebb_flags ${ARG_INTERNALLY})
    set(scope PUBLIC)
    set_property(GLOBAL APPEND PROPERTY EBB_STATIC_TARGETS ${target})
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${ARG_DEPENDS} ${ARG_INTERNALLY} ${ARG_LIBRARIES})
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
endfunction()

# The checksum is compiled once per instruction set; digest.cc chooses at run time.
function(ebb_digest_variants)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    return()
  endif()
  foreach(variant avx2=-mavx2 avx512=-mavx512f)
    string(REPLACE "=" ";" variant ${variant})
    list(GET variant 0 name)
    list(GET variant 1 flag)
    set(file ${CMAKE_SOURCE_DIR}/src/base/digest_${name}.cc)
    if(EXISTS ${file})
      set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS ${flag})
    endif()
  endforeach()
endfunction()
