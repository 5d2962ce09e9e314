#pragma once
// What a pickle built, as plain values in one pool: nothing is ever called or imported, a "call" of a listed
// name only makes one of these. Values refer to each other by number, so no depth of nesting needs stack to
// make or to drop.
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exchange/pickle/pickle_globals.h"
#include "state/dtype.h"

namespace unbroken {

/// Place in PickleHeap::values.
using Ref = std::uint32_t;

struct PickleValue {
  enum class Kind : std::uint8_t {
    none,
    boolean,      ///< number
    integer,      ///< number
    big_integer,  ///< text: decimal
    real,
    text,   ///< text: UTF-8, lone surrogates as three bytes each
    bytes,  ///< text
    complex,
    list,
    tuple,
    set,
    frozenset,
    deque,  ///< number: bound, or -1
    size,
    dict,  ///< items: key, value, key, value, ... of this and the three below
    ordered_dict,
    counter,
    defaultdict,   ///< is_whole: without a factory
    global,        ///< a listed name
    dtype,         ///< torch.float32
    storage,       ///< text: key; number: elements; items: none
    tensor,        ///< number: place in PickleHeap::tensors
    numpy_dtype,   ///< is_whole once its byte order is known
    array,         ///< number: place in tensors; items: bytes; is_whole once it has its state
    numpy_scalar,  ///< text: bytes
    record,        ///< an instance of the class `global`; items: attribute, value, ...
    opaque,        ///< listed, but nothing that a state can hold
    foreign,       ///< text: what it is; nothing is kept of it, and nothing was done with it
  };
  Kind kind = Kind::none;
  Global global = Global::none;
  DType dtype = DType::u8;
  bool is_whole = false, is_fortran = false;
  std::int64_t number = 0;
  double real = 0, imag = 0;
  std::string text = {};
  std::vector<Ref> items = {};
};

/// What no state can hold, told in a word or two.
inline PickleValue foreign_value(std::string what) {
  return {.kind = PickleValue::Kind::foreign, .text = std::move(what)};
}

/// Where the elements of a tensor are in its storage, counted in elements.
struct PickledTensor {
  Ref storage = 0;
  std::uint64_t offset = 0;
  Shape shape;
  std::vector<std::uint64_t> strides;
};

struct PickleHeap {
  std::deque<PickleValue> values;
  std::vector<PickledTensor> tensors;
  std::set<std::string> not_listed;       ///< names that the pickle says and that are not on the list
  std::size_t items = 0, text_bytes = 0;  ///< of all values: a value that is named again may be copied
};

}  // namespace unbroken
