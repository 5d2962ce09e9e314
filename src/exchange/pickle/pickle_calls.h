#pragma once
// What "calling" a listed name, and giving state to what it made, means: one plain value each.
#include <string>

#include "base/result.h"
#include "exchange/pickle/pickle_heap.h"

namespace unbroken {

/// The value of `callable(*arguments)`; `arguments` is a tuple. Errors: corrupt.
Result<PickleValue> call_global(PickleHeap& heap, const PickleValue& callable, const PickleValue& arguments);
/// object.__new__(cls): an instance of one of the listed classes, empty. Errors: corrupt.
Result<PickleValue> new_record(const PickleValue& cls, const PickleValue& arguments);
/// Gives `object` its state. Errors: corrupt.
Result<> build(PickleHeap& heap, Ref object, Ref state);
/// A storage from its persistent id. Errors: corrupt.
Result<PickleValue> storage_of(const PickleHeap& heap, Ref id);

/// The value of an attribute of a record; null where it has none.
const PickleValue* attribute(const PickleHeap& heap, const PickleValue& record, std::string_view name);

}  // namespace unbroken
