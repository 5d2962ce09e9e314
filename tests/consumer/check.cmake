# cmake -DHOW=build-tree|install|subdirectory -DSOURCE=DIR -DBUILD=DIR -DWORK=DIR -P check.cmake
# Builds the consumer in one of the three ways and runs it.
file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
set(project "${SOURCE}/tests/consumer")
if(HOW STREQUAL "build-tree")
  set(options "-Dunbroken_DIR=${BUILD}")
elseif(HOW STREQUAL "install")
  execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BUILD}" --component cpp --prefix "${WORK}/prefix"
                  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  set(options "-DCMAKE_PREFIX_PATH=${WORK}/prefix")
else()
  set(project "${SOURCE}/tests/consumer/embedded")
  set(options "-DUNBROKEN_SOURCE=${SOURCE}")
endif()
execute_process(COMMAND "${CMAKE_COMMAND}" -G Ninja -S "${project}" -B "${WORK}/build" ${options}
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${WORK}/build" --target consumer COMMAND_ERROR_IS_FATAL ANY)
find_program(consumer consumer PATHS "${WORK}/build" "${WORK}/build/bin" NO_DEFAULT_PATH REQUIRED)
execute_process(COMMAND "${consumer}" "${WORK}/run" COMMAND_ERROR_IS_FATAL ANY)
