# Language, warnings, sanitizers, and the faster tools where the machine has them. Applies to every target that links
# ebb_flags, which ebb_library() and its siblings do.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON) # everything may end in a Python extension
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON) # libraries may lie where the loader does not look, as in Conda's environments
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Kind of build" FORCE)
endif()

add_library(ebb_flags INTERFACE)
target_compile_options(ebb_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion)
if(EBB_WERROR)
  target_compile_options(ebb_flags INTERFACE -Werror)
  # What GCC guesses from optimized code differs by version and is sometimes wrong: shown, not fatal.
  foreach(guess maybe-uninitialized array-bounds stringop-overflow stringop-overread restrict dangling-pointer)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(ebb_flags INTERFACE -Wno-error=${guess})
    endif()
  endforeach()
endif()
if(EBB_VALIDATE)
  target_compile_definitions(ebb_flags INTERFACE EBB_VALIDATE)
endif()
if(EBB_SANITIZE)
  # For all targets, so that no part of a program escapes.
  add_compile_options(-fsanitize=${EBB_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${EBB_SANITIZE})
  if(EBB_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(ebb_flags INTERFACE -Wno-tsan) # fences are not modelled; ours are for other processes
  endif()
endif()

find_program(EBB_CCACHE ccache)
if(EBB_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Where there is no place for its cache, as without a home directory, it compiles nothing.
  file(WRITE ${CMAKE_BINARY_DIR}/ccache_works.cc "")
  execute_process(COMMAND ${EBB_CCACHE} ${CMAKE_CXX_COMPILER} -c ccache_works.cc -o ccache_works.o
                  WORKING_DIRECTORY ${CMAKE_BINARY_DIR} RESULT_VARIABLE ccache_fails OUTPUT_QUIET ERROR_QUIET)
  if(NOT ccache_fails)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${EBB_CCACHE})
  endif()
endif()
find_program(EBB_MOLD ld.mold)
find_program(EBB_LLD ld.lld)
if(EBB_MOLD AND NOT (CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12.1))
  add_link_options(-fuse-ld=mold)
elseif(EBB_LLD)
  add_link_options(-fuse-ld=lld)
endif()
