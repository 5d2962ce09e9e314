# Tests that belong to no single module.

# The promises of world/store.h, for whoever has a Store: tests/conformance/store_suite.h.
add_library(unbroken_store_suite OBJECT tests/conformance/store_suite.cc)
target_include_directories(unbroken_store_suite PUBLIC "${PROJECT_SOURCE_DIR}/tests")
target_link_libraries(unbroken_store_suite PUBLIC unbroken_world GTest::gmock PRIVATE unbroken_warnings)

file(GLOB conformance_tests CONFIGURE_DEPENDS tests/conformance/*_test.cc)
unbroken_test(conformance_test SOURCES ${conformance_tests} DEPENDS filestore os sim LIBRARIES unbroken_store_suite)
