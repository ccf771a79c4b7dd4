# The examples: examples/<name>/<name>.cc, each a program of its own on the façade.
file(GLOB ebb_examples CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/examples/*/*.cc)
foreach(source ${ebb_examples})
  cmake_path(GET source STEM name)
  add_executable(example_${name} ${source})
  target_link_libraries(example_${name} PRIVATE ebb ebb_flags)
  set_target_properties(example_${name} PROPERTIES OUTPUT_NAME ${name}
                                                   RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/examples)
endforeach()
