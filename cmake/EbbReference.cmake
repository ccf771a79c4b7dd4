# Completions and manual pages, as the program itself tells them (cli/reference), where shells and man look in a prefix;
# in an environment of Python's, man finds them by PATH.
if(NOT TARGET ebb_program OR CMAKE_CROSSCOMPILING)
  return()
endif()
set(ebb_share ${CMAKE_BINARY_DIR}/share)
set(ebb_bash ${ebb_share}/bash-completion/completions)
set(ebb_zsh ${ebb_share}/zsh/site-functions)
set(ebb_fish ${ebb_share}/fish/vendor_completions.d)
add_custom_command(OUTPUT ${ebb_share}/man/man1/ebb.1
  COMMAND ${CMAKE_COMMAND} -E make_directory ${ebb_bash} ${ebb_zsh} ${ebb_fish} ${ebb_share}/man/man1
  COMMAND ebb_program completion bash > ${ebb_bash}/ebb
  COMMAND ebb_program completion zsh > ${ebb_zsh}/_ebb
  COMMAND ebb_program completion fish > ${ebb_fish}/ebb.fish
  COMMAND ebb_program man --to ${ebb_share}/man/man1
  DEPENDS ebb_program COMMENT "Completions and manual pages" VERBATIM)
add_custom_target(ebb_reference ALL DEPENDS ${ebb_share}/man/man1/ebb.1)
install(DIRECTORY ${ebb_share}/ DESTINATION ${EBB_SHARE_DESTINATION})
