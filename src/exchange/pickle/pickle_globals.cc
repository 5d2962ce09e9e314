#include "exchange/pickle/pickle_globals.h"

#include <fmt/format.h>

#include <array>

#include "base/utf8.h"

namespace unbroken {

namespace {

struct Named {
  std::string_view text;
  DType dtype;
};

constexpr std::array kTorchTypes{
    Named{"float64", DType::f64},
    Named{"float32", DType::f32},
    Named{"float16", DType::f16},
    Named{"bfloat16", DType::bf16},
    Named{"int64", DType::i64},
    Named{"int32", DType::i32},
    Named{"int16", DType::i16},
    Named{"int8", DType::i8},
    Named{"uint64", DType::u64},
    Named{"uint32", DType::u32},
    Named{"uint16", DType::u16},
    Named{"uint8", DType::u8},
    Named{"bool", DType::boolean},
    Named{"complex32", DType::c32},
    Named{"complex64", DType::c64},
    Named{"complex128", DType::c128},
    Named{"float8_e4m3fn", DType::f8_e4m3},
    Named{"float8_e4m3fnuz", DType::f8_e4m3fnuz},
    Named{"float8_e5m2", DType::f8_e5m2},
    Named{"float8_e5m2fnuz", DType::f8_e5m2fnuz},
    Named{"float8_e8m0fnu", DType::f8_e8m0},
    Named{"float4_e2m1fn_x2", DType::f4x2},
    Named{"uint1", DType::uint1},
    Named{"uint2", DType::uint2},
    Named{"uint3", DType::uint3},
    Named{"uint4", DType::uint4},
    Named{"uint5", DType::uint5},
    Named{"uint6", DType::uint6},
    Named{"uint7", DType::uint7},
    Named{"int1", DType::int1},
    Named{"int2", DType::int2},
    Named{"int3", DType::int3},
    Named{"int4", DType::int4},
    Named{"int5", DType::int5},
    Named{"int6", DType::int6},
    Named{"int7", DType::int7},
    Named{"bits1x8", DType::bits1x8},
    Named{"bits2x4", DType::bits2x4},
    Named{"bits4x2", DType::bits4x2},
    Named{"bits8", DType::bits8},
    Named{"bits16", DType::bits16},
};

constexpr std::array kStorages{
    Named{"DoubleStorage", DType::f64},       Named{"FloatStorage", DType::f32},
    Named{"HalfStorage", DType::f16},         Named{"BFloat16Storage", DType::bf16},
    Named{"LongStorage", DType::i64},         Named{"IntStorage", DType::i32},
    Named{"ShortStorage", DType::i16},        Named{"CharStorage", DType::i8},
    Named{"ByteStorage", DType::u8},          Named{"BoolStorage", DType::boolean},
    Named{"ComplexFloatStorage", DType::c64}, Named{"ComplexDoubleStorage", DType::c128},
};

constexpr std::array kNumpyCodes{
    Named{"b1", DType::boolean}, Named{"i1", DType::i8},    Named{"i2", DType::i16}, Named{"i4", DType::i32},
    Named{"i8", DType::i64},     Named{"u1", DType::u8},    Named{"u2", DType::u16}, Named{"u4", DType::u32},
    Named{"u8", DType::u64},     Named{"f2", DType::f16},   Named{"f4", DType::f32}, Named{"f8", DType::f64},
    Named{"c8", DType::c64},     Named{"c16", DType::c128},
};

template <std::size_t N>
std::optional<DType> look_up(const std::array<Named, N>& table, std::string_view text) {
  for (const Named& named : table)
    if (named.text == text) return named.dtype;
  return std::nullopt;
}

enum class List : std::uint8_t { both, torch_file, dcp };
struct Listed {
  std::string_view module, name;
  Global global;
  List list = List::torch_file;
};

constexpr std::string_view kMetadata = "torch.distributed.checkpoint.metadata";

constexpr std::array kListed{
    Listed{"collections", "OrderedDict", Global::ordered_dict, List::both},
    Listed{"torch", "Size", Global::size, List::both},
    Listed{"collections", "Counter", Global::counter},
    Listed{"collections", "defaultdict", Global::defaultdict},
    Listed{"collections", "deque", Global::deque},
    Listed{"builtins", "set", Global::set, List::both},
    Listed{"builtins", "frozenset", Global::frozenset, List::both},
    Listed{"builtins", "complex", Global::complex},
    Listed{"builtins", "bytes", Global::bytes},
    Listed{"_codecs", "encode", Global::encode},
    Listed{"torch", "UntypedStorage", Global::untyped_storage},
    Listed{"torch.storage", "UntypedStorage", Global::untyped_storage},
    Listed{"torch._utils", "_rebuild_tensor", Global::rebuild_tensor},
    Listed{"torch._utils", "_rebuild_tensor_v2", Global::rebuild_tensor_v2},
    Listed{"torch._utils", "_rebuild_tensor_v3", Global::rebuild_tensor_v3},
    Listed{"torch._utils", "_rebuild_parameter", Global::rebuild_parameter},
    Listed{"numpy.core.multiarray", "_reconstruct", Global::numpy_reconstruct},
    Listed{"numpy._core.multiarray", "_reconstruct", Global::numpy_reconstruct},
    Listed{"numpy.core.multiarray", "scalar", Global::numpy_scalar},
    Listed{"numpy._core.multiarray", "scalar", Global::numpy_scalar},
    Listed{"numpy", "ndarray", Global::numpy_array},
    Listed{"numpy", "dtype", Global::numpy_dtype},
    Listed{"torch.serialization", "_get_layout", Global::layout, List::dcp},
    Listed{"pathlib", "PosixPath", Global::path, List::dcp},
    Listed{"pathlib._local", "PosixPath", Global::path, List::dcp},
    Listed{kMetadata, "_MEM_FORMAT_ENCODING", Global::memory_format, List::dcp},
    Listed{kMetadata, "Metadata", Global::metadata, List::dcp},
    Listed{kMetadata, "TensorStorageMetadata", Global::tensor_metadata, List::dcp},
    Listed{kMetadata, "ChunkStorageMetadata", Global::chunk_metadata, List::dcp},
    Listed{kMetadata, "BytesStorageMetadata", Global::bytes_metadata, List::dcp},
    Listed{kMetadata, "TensorProperties", Global::tensor_properties, List::dcp},
    Listed{kMetadata, "MetadataIndex", Global::metadata_index, List::dcp},
    Listed{kMetadata, "StorageMeta", Global::storage_meta, List::dcp},
    Listed{"torch.distributed.checkpoint.filesystem", "_StorageInfo", Global::storage_info, List::dcp},
    // Where versions before 2.3 kept them.
    Listed{"torch.distributed._shard.sharded_tensor.metadata", "TensorProperties", Global::tensor_properties,
           List::dcp},
    Listed{"torch.distributed._shard.sharded_tensor.metadata", "MEM_FORMAT_ENCODING", Global::memory_format,
           List::dcp},
};

}  // namespace

Result<GlobalName> find_global(PickleDialect dialect, std::string_view module, std::string_view name) {
  const bool is_torch_file = dialect == PickleDialect::torch_file;
  const std::string_view home = module == "__builtin__" ? "builtins" : module;  // its name in Python 2
  for (const Listed& listed : kListed)
    if (listed.module == home && listed.name == name &&
        (listed.list == List::both || (listed.list == List::torch_file) == is_torch_file))
      return GlobalName{listed.global};
  if (home == "torch") {
    if (const auto dtype = dtype_from_torch_name(name)) return GlobalName{Global::dtype, *dtype};
    if (const auto dtype = look_up(kStorages, name); dtype && is_torch_file)
      return GlobalName{Global::storage_class, *dtype};
  }
  return Error(
      Code::corrupt,
      fmt::format("the pickle names {}.{}, which is not among what may be read; nothing of it was run",
                  foreign_text(module), foreign_text(name)));
}

std::optional<DType> dtype_from_torch_name(std::string_view name) {
  return look_up(kTorchTypes, name);
}

std::optional<DType> dtype_from_numpy_code(std::string_view code) {
  return look_up(kNumpyCodes, code);
}

std::string foreign_text(std::string_view text) {
  constexpr std::size_t kShown = 200;
  return printable(text.substr(0, kShown)) + (text.size() > kShown ? "..." : "");
}

}  // namespace unbroken
