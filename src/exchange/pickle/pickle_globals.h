#pragma once
// The closed list of names that a pickle may say. Whatever is not here stands for nothing: nothing is done
// with it, and a state that would hold it is refused, or read without it where that was asked for.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "state/dtype.h"

namespace unbroken {

/// Which list counts.
enum class PickleDialect : std::uint8_t {
  torch_file,    ///< what torch.save writes: containers, tensors, arrays
  dcp_metadata,  ///< .metadata of torch.distributed.checkpoint: containers and its own classes
};

enum class Global : std::uint8_t {
  none,
  // Both lists
  ordered_dict,
  size,
  dtype,
  // torch_file
  counter,
  defaultdict,
  deque,
  set,
  frozenset,
  complex,
  bytes,
  encode,
  storage_class,
  untyped_storage,
  rebuild_tensor,
  rebuild_tensor_v2,
  rebuild_tensor_v3,
  rebuild_parameter,
  numpy_reconstruct,
  numpy_scalar,
  numpy_array,
  numpy_dtype,
  // dcp_metadata: functions and enumerations whose value does not matter, then classes
  layout,
  memory_format,
  path,
  metadata,
  tensor_metadata,
  chunk_metadata,
  bytes_metadata,
  tensor_properties,
  metadata_index,
  storage_info,
  storage_meta,
};

struct GlobalName {
  Global global = Global::none;
  DType dtype = DType::u8;  ///< of a dtype, of a storage class
};
/// Errors: corrupt, naming what is not on the list.
Result<GlobalName> find_global(PickleDialect dialect, std::string_view module, std::string_view name);
/// "float32" of torch.float32.
std::optional<DType> dtype_from_torch_name(std::string_view name);
/// "f8" of numpy.dtype("f8"): kind and bytes of an element.
std::optional<DType> dtype_from_numpy_code(std::string_view code);
/// Text from a foreign file, fit for a terminal and of bounded length.
std::string foreign_text(std::string_view text);

}  // namespace unbroken
