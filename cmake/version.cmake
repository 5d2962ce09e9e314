# `#include "unbroken_version.h"` gives UNBROKEN_VERSION and UNBROKEN_COMMIT ("unknown" outside a git checkout; with
# a "+" where tracked files differ from it) to whoever links unbroken_version. The header is checked on every build
# and written only when it changes. Run with -P, this file is the script that writes it.
if(CMAKE_SCRIPT_MODE_FILE)
  set(commit "")
  execute_process(COMMAND git describe --always --abbrev=12 --dirty=+ --exclude=* WORKING_DIRECTORY "${SOURCE}"
                  OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(commit STREQUAL "")
    set(commit unknown)
  endif()
  file(CONFIGURE OUTPUT "${HEADER}" @ONLY CONTENT
       "#pragma once\n#define UNBROKEN_VERSION \"@VERSION@\"\n#define UNBROKEN_COMMIT \"@commit@\"\n")
  return()
endif()

set(unbroken_version_header "${PROJECT_BINARY_DIR}/generated/unbroken_version.h")
add_custom_target(unbroken_version_header BYPRODUCTS "${unbroken_version_header}"
  COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${PROJECT_SOURCE_DIR}" "-DHEADER=${unbroken_version_header}"
          "-DVERSION=${PROJECT_VERSION}" -P "${CMAKE_CURRENT_LIST_FILE}" VERBATIM)
add_library(unbroken_version INTERFACE)
add_dependencies(unbroken_version unbroken_version_header)
target_include_directories(unbroken_version INTERFACE "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>")
