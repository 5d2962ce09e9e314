#include "exchange/pickle/pickle_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "exchange/strided.h"

namespace unbroken {

namespace {

using Kind = PickleValue::Kind;

constexpr std::size_t kAxesMax = 64;  // of NumPy and torch; the format's own cap comes later

Error corrupt(std::string_view why) {
  return Error(Code::corrupt, fmt::format("pickle: {}", why));
}

/// The arguments of one call, read with their kinds.
class Arguments {
 public:
  Arguments(const PickleHeap& heap, const PickleValue& tuple) : heap_(heap), items_(tuple.items) {}
  std::size_t count() const { return items_.size(); }
  Ref ref(std::size_t i) const { return items_[i]; }
  const PickleValue& operator[](std::size_t i) const { return heap_.values[items_[i]]; }
  bool has(std::size_t i, Kind kind) const { return i < items_.size() && (*this)[i].kind == kind; }

 private:
  const PickleHeap& heap_;
  const std::vector<Ref>& items_;
};

/// The numbers of a shape or of strides.
Result<std::vector<std::uint64_t>> sizes(const PickleHeap& heap, const PickleValue& value) {
  if (value.kind != Kind::tuple && value.kind != Kind::size && value.kind != Kind::list)
    return corrupt("a shape is no tuple");
  if (value.items.size() > kAxesMax) return corrupt("a tensor has too many axes");
  std::vector<std::uint64_t> out;
  for (const Ref item : value.items) {
    const PickleValue& number = heap.values[item];
    if (number.kind != Kind::integer || number.number < 0)
      return corrupt("a shape, stride or offset is negative or no integer");
    out.push_back(static_cast<std::uint64_t>(number.number));
  }
  return out;
}

bool is_falsy(const PickleValue& value) {
  switch (value.kind) {
    case Kind::none:
      return true;
    case Kind::boolean:
      return value.number == 0;
    case Kind::dict:
    case Kind::ordered_dict:
      return value.items.empty();
    default:
      return false;
  }
}

/// (storage, offset, size, stride, requires_grad, hooks[, dtype][, metadata])
Result<PickleValue> rebuild_tensor(PickleHeap& heap, const Arguments& args, Global how) {
  const bool is_v3 = how == Global::rebuild_tensor_v3;
  const std::size_t least = how == Global::rebuild_tensor ? 4U : is_v3 ? 7U : 6U;
  if (args.count() < least || args.count() > least + (how == Global::rebuild_tensor ? 0U : 1U) ||
      !args.has(0, Kind::storage) || !args.has(1, Kind::integer) || args[1].number < 0)
    return corrupt("a tensor is not described as torch describes one");
  const PickleValue& storage = args[0];
  PickledTensor tensor;
  tensor.storage = args.ref(0);
  tensor.offset = static_cast<std::uint64_t>(args[1].number);
  UNBROKEN_TRY(tensor.shape, sizes(heap, args[2]));
  UNBROKEN_TRY(tensor.strides, sizes(heap, args[3]));
  if (args.count() > 5 && !is_falsy(args[5])) return foreign_value("a tensor with hooks, which are code");
  if (is_v3 && !args.has(6, Kind::dtype)) return corrupt("a tensor has no dtype");
  if (args.count() > least && !is_falsy(args[least]))
    return foreign_value("a tensor that is stored conjugated or negated: save it resolved");
  PickleValue out{.kind = Kind::tensor, .dtype = is_v3 ? args[6].dtype : storage.dtype};
  // What a storage holds is counted in its own elements, in bytes where it has no type.
  const std::uint64_t bytes = static_cast<std::uint64_t>(storage.number) * bits_of(storage.dtype) / 8;
  UNBROKEN_DO(check_strided(tensor.shape, tensor.strides, tensor.offset, bytes / (bits_of(out.dtype) / 8)));
  heap.tensors.push_back(std::move(tensor));
  out.number = static_cast<std::int64_t>(heap.tensors.size() - 1);
  return out;
}

Result<PickleValue> rebuild_parameter(const Arguments& args) {
  if (args.count() != 3 || !args.has(0, Kind::tensor) || !is_falsy(args[2]))
    return corrupt("a parameter is not described as torch describes one");
  return args[0];
}

/// OrderedDict(), or OrderedDict([[key, value], ...]) as Python 2 wrote it.
Result<PickleValue> ordered_dict(const PickleHeap& heap, const Arguments& args) {
  PickleValue out{.kind = Kind::ordered_dict};
  if (args.count() == 0) return out;
  if (args.count() != 1 || !args.has(0, Kind::list))
    return corrupt("an OrderedDict is made of what is no list");
  for (const Ref item : args[0].items) {
    const PickleValue& pair = heap.values[item];
    if ((pair.kind != Kind::list && pair.kind != Kind::tuple) || pair.items.size() != 2)
      return corrupt("an OrderedDict is made of what are no pairs");
    out.items.insert(out.items.end(), pair.items.begin(), pair.items.end());
  }
  return out;
}

/// A container made of another one.
Result<PickleValue> converted(const Arguments& args, Kind kind, bool is_dict) {
  PickleValue out{.kind = kind};
  if (args.count() == 0) return out;
  if (args.count() != 1) return corrupt("a container is made of more than one value");
  const Kind from = args[0].kind;
  const bool fits = is_dict ? from == Kind::dict : from == Kind::list || from == Kind::tuple;
  if (!fits) return corrupt("a container is made of what holds no items");
  out.items = args[0].items;
  return out;
}

Result<PickleValue> make_deque(const Arguments& args) {
  if (args.count() > 2) return corrupt("a deque is made of too many values");
  PickleValue out{.kind = Kind::deque, .number = -1};
  if (args.count() > 0) {
    if (args[0].kind != Kind::tuple && args[0].kind != Kind::list)
      return corrupt("a deque is made of what holds no items");
    out.items = args[0].items;
  }
  if (args.count() == 2 && args[1].kind != Kind::none) {
    if (args[1].kind != Kind::integer || args[1].number < 0) return corrupt("a deque has no proper bound");
    out.number = args[1].number;
  }
  return out;
}

/// _codecs.encode(text, "latin1"): how protocol 2 writes bytes.
Result<PickleValue> encoded(const Arguments& args) {
  if (args.count() != 2 || !args.has(0, Kind::text) || !args.has(1, Kind::text) ||
      (args[1].text != "latin1" && args[1].text != "latin-1"))
    return corrupt("a text is encoded in an unknown way");
  const std::string& text = args[0].text;
  PickleValue out{.kind = Kind::bytes};
  out.text.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto lead = static_cast<unsigned char>(text[i]);
    if (lead < 0x80) {
      out.text += text[i];
      continue;
    }
    const unsigned next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
    if ((lead != 0xc2 && lead != 0xc3) || (next & 0xc0U) != 0x80U)
      return corrupt("bytes are written as a text that is not Latin-1");
    out.text += static_cast<char>((lead & 3U) << 6 | (next & 0x3fU));
    ++i;
  }
  return out;
}

Result<PickleValue> torch_size(const PickleHeap& heap, const Arguments& args) {
  PickleValue out{.kind = Kind::size};
  if (args.count() == 0) return out;
  if (args.count() != 1 || !args.has(0, Kind::tuple))
    return corrupt("a torch.Size is made of what is no tuple");
  for (const Ref item : args[0].items)
    if (heap.values[item].kind != Kind::integer) return corrupt("a torch.Size holds what is no integer");
  out.items = args[0].items;
  return out;
}

Result<PickleValue> numpy_dtype(const Arguments& args) {
  if (args.count() == 0 || args.count() > 3 || !args.has(0, Kind::text))
    return corrupt("a NumPy dtype is damaged");
  const auto dtype = dtype_from_numpy_code(args[0].text);
  if (!dtype) return foreign_value(fmt::format("NumPy's type {}", foreign_text(args[0].text)));
  return PickleValue{.kind = Kind::numpy_dtype, .dtype = *dtype, .is_whole = bits_of(*dtype) == 8};
}

Result<PickleValue> numpy_scalar(const Arguments& args) {
  if (args.count() != 2 || !args.has(0, Kind::numpy_dtype) || !args[0].is_whole ||
      !args.has(1, Kind::bytes) || args[1].text.size() != bits_of(args[0].dtype) / 8)
    return corrupt("a NumPy scalar is damaged");
  return PickleValue{.kind = Kind::numpy_scalar, .dtype = args[0].dtype, .text = args[1].text};
}

Result<PickleValue> call_torch(PickleHeap& heap, Global global, const Arguments& args) {
  switch (global) {
    case Global::size:
      return torch_size(heap, args);
    case Global::rebuild_tensor:
    case Global::rebuild_tensor_v2:
    case Global::rebuild_tensor_v3:
      return rebuild_tensor(heap, args, global);
    case Global::rebuild_parameter:
      return rebuild_parameter(args);
    case Global::numpy_reconstruct:
      if (args.count() != 3 || !args.has(0, Kind::global) || args[0].global != Global::numpy_array)
        return foreign_value("a NumPy array of another class");
      return PickleValue{.kind = Kind::array};
    case Global::numpy_dtype:
      return numpy_dtype(args);
    case Global::numpy_scalar:
      return numpy_scalar(args);
    case Global::layout:
    case Global::memory_format:
    case Global::path:
      return PickleValue{.kind = Kind::opaque};
    default:
      return corrupt("it calls what cannot be called");
  }
}

// -- State

/// (version, shape, dtype, is_fortran, bytes)
Result<> build_array(PickleHeap& heap, PickleValue& array, const PickleValue& state) {
  const Arguments parts(heap, state);
  if (parts.has(2, Kind::foreign)) {
    array = foreign_value(parts[2].text);
    return Done{};
  }
  if (array.is_whole || state.kind != Kind::tuple || parts.count() != 5 || !parts.has(2, Kind::numpy_dtype) ||
      !parts[2].is_whole || !parts.has(3, Kind::boolean) || !parts.has(4, Kind::bytes))
    return corrupt("a NumPy array is damaged, or holds what cannot be kept");
  PickledTensor tensor;
  UNBROKEN_TRY(tensor.shape, sizes(heap, parts[1]));
  const auto bytes = byte_size(parts[2].dtype, tensor.shape);
  if (!bytes.ok() || bytes.value() != parts[4].text.size())
    return corrupt("a NumPy array has another number of bytes than its shape says");
  array.is_fortran = parts[3].number != 0;
  Shape order = tensor.shape;
  if (array.is_fortran) order.assign(tensor.shape.rbegin(), tensor.shape.rend());
  auto strides = contiguous_strides(order);
  if (!strides.ok()) return corrupt(strides.error().what());
  tensor.strides = std::move(strides).value();
  if (array.is_fortran) std::reverse(tensor.strides.begin(), tensor.strides.end());
  array.dtype = parts[2].dtype;
  array.items = {parts.ref(4)};
  array.number = static_cast<std::int64_t>(heap.tensors.size());
  array.is_whole = true;
  heap.tensors.push_back(std::move(tensor));
  return Done{};
}

/// (version, byte order, subtype, names, fields, ...)
Result<> build_numpy_dtype(const PickleHeap& heap, PickleValue& dtype, const PickleValue& state) {
  const Arguments parts(heap, state);
  if (state.kind != Kind::tuple || parts.count() < 5 || !parts.has(1, Kind::text))
    return corrupt("a NumPy dtype is damaged");
  for (const std::size_t i : {2U, 3U, 4U})
    if (parts[i].kind != Kind::none) {
      dtype = foreign_value("a NumPy dtype with fields");
      return Done{};
    }
  const std::string& order = parts[1].text;
  if (order == "<" || order == "|" || order == "=")
    dtype.is_whole = true;
  else
    dtype = foreign_value("a big-endian NumPy array");
  return Done{};
}

/// Attributes of a container: module.state_dict() has `_metadata`, the versions of its modules, which only
/// PyTorch's own conversion of old files reads.
Result<> build_ordered_dict(const PickleHeap& heap, const PickleValue& state) {
  if (state.kind == Kind::none) return Done{};
  if (state.kind != Kind::dict) return corrupt("an OrderedDict has a state that is no dict");
  for (std::size_t i = 0; i < state.items.size(); i += 2) {
    const PickleValue& key = heap.values[state.items[i]];
    if (key.kind != Kind::text || key.text != "_metadata")
      return corrupt(fmt::format("an OrderedDict has an attribute of its own, {}",
                                 key.kind == Kind::text ? foreign_text(key.text) : "without a name"));
  }
  return Done{};
}

Result<> build_record(const PickleHeap& heap, PickleValue& record, const PickleValue& state) {
  if (!record.items.empty()) return corrupt("an object gets its state twice");
  if (record.global == Global::tensor_properties && state.kind == Kind::tuple) {
    if (state.items.empty() || heap.values[state.items[0]].kind != Kind::dtype)
      return corrupt("the properties of a tensor have no dtype");
    record.dtype = heap.values[state.items[0]].dtype;
    record.is_whole = true;
    return Done{};
  }
  if (state.kind != Kind::dict) return corrupt("an object has a state that is no dict");
  record.items = state.items;
  return Done{};
}

}  // namespace

Result<PickleValue> call_global(PickleHeap& heap, const PickleValue& callable, const PickleValue& arguments) {
  if ((callable.kind != Kind::global && callable.kind != Kind::foreign) || arguments.kind != Kind::tuple)
    return corrupt("it calls what cannot be called");
  const Arguments args(heap, arguments);
  if (callable.kind == Kind::foreign)
    return foreign_value(callable.text.ends_with("._reconstructor") && args.has(0, Kind::foreign)
                             ? args[0].text
                             : callable.text);
  if (callable.global != Global::defaultdict)
    for (std::size_t i = 0; i < args.count(); ++i)
      if (args.has(i, Kind::foreign)) return args[i];
  switch (callable.global) {
    case Global::ordered_dict:
      return ordered_dict(heap, args);
    case Global::counter:
      return converted(args, Kind::counter, true);
    case Global::defaultdict:
      if (args.count() > 1) return corrupt("a defaultdict is made of too many values");
      return PickleValue{.kind = Kind::defaultdict, .is_whole = args.count() == 0 || args.has(0, Kind::none)};
    case Global::deque:
      return make_deque(args);
    case Global::set:
      return converted(args, Kind::set, false);
    case Global::frozenset:
      return converted(args, Kind::frozenset, false);
    case Global::complex:
      if (args.count() != 2 || !args.has(0, Kind::real) || !args.has(1, Kind::real))
        return corrupt("a complex number is not made of two floats");
      return PickleValue{.kind = Kind::complex, .real = args[0].real, .imag = args[1].real};
    case Global::bytes:
      if (args.count() != 0) return corrupt("bytes are made of something");
      return PickleValue{.kind = Kind::bytes};
    case Global::encode:
      return encoded(args);
    default:
      return call_torch(heap, callable.global, args);
  }
}

Result<PickleValue> new_record(const PickleValue& cls, const PickleValue& arguments) {
  if (cls.kind == Kind::foreign) return cls;
  if (cls.kind != Kind::global || cls.global < Global::metadata || arguments.kind != Kind::tuple ||
      !arguments.items.empty())
    return corrupt("it makes an instance of what is no class of its own");
  return PickleValue{.kind = Kind::record, .global = cls.global};
}

Result<> build(PickleHeap& heap, Ref object, Ref state) {
  PickleValue& target = heap.values[object];
  const PickleValue& given = heap.values[state];
  switch (target.kind) {
    case Kind::array:
      return build_array(heap, target, given);
    case Kind::numpy_dtype:
      return build_numpy_dtype(heap, target, given);
    case Kind::ordered_dict:
      return build_ordered_dict(heap, given);
    case Kind::record:
      return build_record(heap, target, given);
    case Kind::foreign:
      return Done{};
    default:
      return corrupt("it gives a state to what has none");
  }
}

Result<PickleValue> storage_of(const PickleHeap& heap, Ref id) {
  const PickleValue& tuple = heap.values[id];
  const Arguments parts(heap, tuple);
  const auto bad = [](std::string_view why) { return corrupt(fmt::format("a storage {}", why)); };
  // The sixth stands in files of before 1.6, for a storage that is a part of another.
  if (parts.has(1, Kind::foreign)) return parts[1];
  if (tuple.kind != Kind::tuple || parts.count() < 5 || parts.count() > 6 || !parts.has(0, Kind::text) ||
      parts[0].text != "storage" || !parts.has(1, Kind::global) || !parts.has(2, Kind::text) ||
      !parts.has(4, Kind::integer))
    return bad("is not described as torch describes one");
  if (parts.count() == 6 && parts[5].kind != Kind::none) return bad("is a part of another one");
  const Global global = parts[1].global;
  if (global != Global::storage_class && global != Global::untyped_storage)
    return bad("is of no known class");
  const std::string& key = parts[2].text;
  if (key.empty() || key.size() > 64 ||
      key.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-") !=
          std::string::npos)
    return bad("has a name that may not be");
  const DType dtype = global == Global::storage_class ? parts[1].dtype : DType::u8;
  const std::int64_t count = parts[4].number;
  if (count < 0 || count > INT64_MAX / 256) return bad("has a size that may not be");
  return PickleValue{.kind = Kind::storage, .dtype = dtype, .number = count, .text = key};
}

const PickleValue* attribute(const PickleHeap& heap, const PickleValue& record, std::string_view name) {
  for (std::size_t i = 0; i + 1 < record.items.size(); i += 2) {
    const PickleValue& key = heap.values[record.items[i]];
    if (key.kind == Kind::text && key.text == name) return &heap.values[record.items[i + 1]];
  }
  return nullptr;
}

}  // namespace unbroken
