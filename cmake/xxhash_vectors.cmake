# Where libxxhash can choose the widest vectors of the processor it runs on (x86, built with DISPATCH=1, as
# Debian's is), hashing takes a third of the time.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES PkgConfig::XXHASH)
check_cxx_source_compiles("
#include <xxhash.h>
#include <xxh_x86dispatch.h>
int main() { return XXH3_128bits(nullptr, 0).low64 == 0; }" UNBROKEN_XXH_DISPATCH)
unset(CMAKE_REQUIRED_LIBRARIES)
if(UNBROKEN_XXH_DISPATCH)
  set_source_files_properties("${CMAKE_CURRENT_SOURCE_DIR}/src/base/digest.cc" PROPERTIES
    COMPILE_DEFINITIONS UNBROKEN_XXH_DISPATCH)
endif()
