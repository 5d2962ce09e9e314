# Tests that belong to no single module.

# The promises of world/store.h, for whoever has a Store: tests/conformance/store_suite.h.
add_library(unbroken_store_suite OBJECT tests/conformance/store_suite.cc)
target_include_directories(unbroken_store_suite PUBLIC "${PROJECT_SOURCE_DIR}/tests")
target_link_libraries(unbroken_store_suite PUBLIC unbroken_world GTest::gmock PRIVATE unbroken_warnings)

file(GLOB conformance_tests CONFIGURE_DEPENDS tests/conformance/*_test.cc)
unbroken_test(conformance_test SOURCES ${conformance_tests} DEPENDS filestore os sim snapshot LIBRARIES unbroken_store_suite)

# Whole runs in the simulator, on the real engine: tests/sim.
add_library(unbroken_toy STATIC tests/sim/toy_run.cc tests/sim/scenarios.cc)
target_include_directories(unbroken_toy PUBLIC "${PROJECT_SOURCE_DIR}/tests/sim")
target_link_libraries(unbroken_toy PUBLIC unbroken_engine unbroken_sim unbroken_filestore PRIVATE unbroken_warnings)
unbroken_test(sim_engine_test SOURCES tests/sim/engine_test.cc DEPENDS toy LABEL sim)
add_executable(unbroken_simulator tests/sim/sim_main.cc)
set_target_properties(unbroken_simulator PROPERTIES OUTPUT_NAME unbroken_sim)
find_package(CLI11 CONFIG REQUIRED)
target_link_libraries(unbroken_simulator PRIVATE unbroken_toy CLI11::CLI11 unbroken_warnings)

# 20,000 simulated runs and every crash of every short workload: on the build that users get, not under sanitizers.
if(NOT UNBROKEN_SANITIZE)
  add_test(NAME sim_seeds COMMAND unbroken_simulator --seeds 3400)
  foreach(part 0 1 2 3)
    add_test(NAME sim_sweep_${part} COMMAND unbroken_simulator --sweep 64 --part ${part} --parts 4)
    set_tests_properties(sim_sweep_${part} PROPERTIES LABELS sim TIMEOUT 900)
  endforeach()
  set_tests_properties(sim_seeds PROPERTIES LABELS sim TIMEOUT 900)
endif()

# What lives lose in tests/crash and tests/loss, from outside the process.
add_executable(saver tests/loss/saver.cc)
target_link_libraries(saver PRIVATE unbroken_session unbroken_warnings)
