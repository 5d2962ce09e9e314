# The three ways in which another project may take this one. Only for the plain build: a sanitized library cannot be
# linked into a program that is not.
if(NOT UNBROKEN_TESTS OR UNBROKEN_SANITIZE OR UNBROKEN_FUZZ OR NOT EXISTS "${PROJECT_SOURCE_DIR}/tests/consumer/main.cc")
  return()
endif()
foreach(how build-tree install subdirectory)
  add_test(NAME consumer_${how}
           COMMAND "${CMAKE_COMMAND}" "-DHOW=${how}" "-DSOURCE=${PROJECT_SOURCE_DIR}" "-DBUILD=${PROJECT_BINARY_DIR}"
                   "-DWORK=${PROJECT_BINARY_DIR}/consumer/${how}" -P "${PROJECT_SOURCE_DIR}/tests/consumer/check.cmake")
  set_tests_properties(consumer_${how} PROPERTIES LABELS unit TIMEOUT 600)
endforeach()
# It compiles the whole library again.
set_tests_properties(consumer_subdirectory PROPERTIES LABELS slow)
