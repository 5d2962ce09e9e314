#pragma once
// Planted faults. In a build with UNBROKEN_MUTANTS a test switches one on by name and must then fail; in
// every other build the test is `false` at compile time and the fault does not exist.
#ifdef UNBROKEN_WITH_MUTANTS
#include <string_view>

namespace unbroken {
inline std::string_view active_mutant;
}
#define UNBROKEN_MUTANT(name) (::unbroken::active_mutant == (name))
#else
#define UNBROKEN_MUTANT(name) false
#endif
