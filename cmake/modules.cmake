# The layers (ARCHITECTURE.md): a module may depend on modules above it in this file, and only on those it names.
# L0
unbroken_module(base LIBRARIES fmt::fmt nlohmann_json::nlohmann_json OpenSSL::Crypto PkgConfig::XXHASH)
target_include_directories(unbroken_base PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>")
# L1
unbroken_module(world DEPENDS base)
unbroken_module(filestore DEPENDS world)
# L2: rules, values in and values out
unbroken_module(state DEPENDS base)
unbroken_module(cadence DEPENDS base)
unbroken_module(data DEPENDS base)
unbroken_module(chart DEPENDS base)
unbroken_module(format DEPENDS state)
unbroken_module(exchange DEPENDS format)
unbroken_module(journal DEPENDS world)
# L3: protocols, which never include each other
unbroken_module(snapshot DEPENDS format world)
unbroken_module(commit DEPENDS format journal)
unbroken_module(restore DEPENDS format journal)
unbroken_module(drill DEPENDS state chart)
unbroken_module(planner DEPENDS cadence chart)
# The worlds
unbroken_module(os DEPENDS world LIBRARIES Threads::Threads)
unbroken_module(simdisk DEPENDS world)
unbroken_module(sim DEPENDS simdisk filestore)
# L4
unbroken_module(engine DEPENDS snapshot commit restore cadence TEST_DEPENDS sim filestore)
unbroken_module(transfer DEPENDS engine exchange)
# L5
unbroken_module(session DEPENDS engine filestore os drill LIBRARIES unbroken_version)
if(UNBROKEN_PROGRAM)
  unbroken_module(cli DEPENDS planner session transfer LIBRARIES CLI11::CLI11 PkgConfig::YAML_CPP PkgConfig::RE2)
  # CLI11 is all headers, and most of what each command compiles
  set_target_properties(unbroken_cli PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 9)
  # A text for Python to run, in the program
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS src/cli/drill/witness.py)
  file(READ src/cli/drill/witness.py witness)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/witness.cc" CONTENT [[
#include "cli/drill/find_forgotten.h"

namespace unbroken {

std::string_view witness_text() {
  return R"witness(@witness@)witness";
}

}  // namespace unbroken
]] @ONLY)
  target_sources(unbroken_cli PRIVATE "${PROJECT_BINARY_DIR}/witness.cc")
endif()
# What reads bytes that others wrote
unbroken_fuzz(record SOURCES src/journal/record_fuzz.cc DEPENDS journal)
unbroken_fuzz(fold SOURCES src/journal/fold/fold_fuzz.cc DEPENDS journal)
unbroken_fuzz(pickle SOURCES src/exchange/pickle_fuzz.cc DEPENDS exchange)
unbroken_fuzz(torch_zip SOURCES src/exchange/torch_zip_fuzz.cc DEPENDS exchange)
