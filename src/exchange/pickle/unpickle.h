#pragma once
// A stack machine that reads pickles (protocols 2 to 5 as torch and Python write them) and executes nothing.
//
// Names are looked up in a closed list (pickle_globals.h); a listed "call" only makes a plain value, and a
// call of what is not on the list, or with it, makes a foreign one, which only says what it would have been.
// Opcodes that exist for code (INST, OBJ, extensions, out-of-band buffers) are refused. Every length is
// checked against what is left before anything is allocated, and values, memo and stack are bounded.
// Source: Lib/pickletools.py of CPython 3.11 for the opcodes.
#include <string_view>

#include "base/result.h"
#include "exchange/pickle/pickle_heap.h"

namespace unbroken {

struct PickleLimits {
  std::size_t values = std::size_t{4} << 20;      ///< made by all pickles of one heap
  std::size_t items = std::size_t{16} << 20;      ///< in containers
  std::size_t text_bytes = std::size_t{1} << 30;  ///< in texts, integers and bytes
  std::size_t stack = std::size_t{1} << 20;
};

/// Reads one pickle from the front of `rest` and takes it away from there. Errors: corrupt.
Result<Ref> unpickle(std::string_view& rest, PickleDialect dialect, PickleHeap& heap,
                     const PickleLimits& limits = {});

}  // namespace unbroken
