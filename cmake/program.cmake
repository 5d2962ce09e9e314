# The program `unbroken`, and the examples that need no Python.
if(UNBROKEN_PROGRAM)
  add_executable(unbroken_program src/cli/unbroken_main.cc)
  set_target_properties(unbroken_program PROPERTIES OUTPUT_NAME unbroken)
  target_link_libraries(unbroken_program PRIVATE unbroken_cli unbroken_warnings)
  # Made by the program itself each time that it is linked, so they are never older than it is.
  set(unbroken_pages "${PROJECT_BINARY_DIR}/share")
  file(MAKE_DIRECTORY "${unbroken_pages}")
  add_custom_command(TARGET unbroken_program POST_BUILD VERBATIM
    COMMAND unbroken_program generate man --to "${unbroken_pages}/unbroken.1"
    COMMAND unbroken_program generate bash --to "${unbroken_pages}/unbroken.bash"
    COMMAND unbroken_program generate zsh --to "${unbroken_pages}/_unbroken")
  add_executable(mlp examples/mlp.cc)
  target_link_libraries(mlp PRIVATE unbroken::unbroken unbroken_warnings)
endif()
if(UNBROKEN_TESTS)
  unbroken_test(damage_test SOURCES tests/cli/damage_test.cc DEPENDS session)
endif()
