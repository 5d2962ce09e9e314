// Any file: a header that is accepted tiles the file, and every tensor in it can be read.
#include "base/check.h"
#include "format/shard.h"
#include "state/names.h"

using namespace unbroken;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes file(reinterpret_cast<const std::byte*>(data), size);
  const auto bytes = header_size(file, size);
  if (!bytes.ok()) return 0;
  const auto header = read_header(file.first(bytes.value()), size);
  if (!header.ok()) {
    UNBROKEN_CHECK(header.is(Code::corrupt));
    return 0;
  }
  std::uint64_t at = header.value().data_offset;
  std::vector<TensorSpec> specs;
  for (const HeaderTensor& tensor : header.value().tensors) {
    UNBROKEN_CHECK(check_name(tensor.name).ok() && is_stored(tensor.dtype));
    UNBROKEN_CHECK(tensor.offset == at && byte_size(tensor.dtype, tensor.shape).value() == tensor.bytes);
    at += tensor.bytes;
    specs.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  UNBROKEN_CHECK(at == size);
  const ShardPlan plan = plan_shard(specs).value();
  UNBROKEN_CHECK(read_header(as_bytes(plan.header), plan.file_bytes).value().tensors.size() == specs.size());
  return 0;
}
