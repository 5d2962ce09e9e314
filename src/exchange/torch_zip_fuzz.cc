// Any bytes as a file of torch.save, new or old: a plan that is accepted stays within the file, survives the
// way out of the sandbox, and every byte it names can be read.
#include <array>

#include "base/check.h"
#include "exchange/foreign_files.h"

using namespace unbroken;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemorySource source({reinterpret_cast<const std::byte*>(data), size});
  const auto kind = foreign_kind(source);
  if (!kind.ok()) return 0;
  const auto read = kind.value() == ForeignKind::torch_zip      ? read_torch_zip(source)
                    : kind.value() == ForeignKind::torch_legacy ? read_torch_legacy(source)
                                                                : read_safetensors(source);
  UNBROKEN_CHECK(read.ok() || read.is(Code::corrupt));
  if (!read.ok()) return 0;
  const std::array<std::uint64_t, 1> sizes{size};
  if (!check_plan(read.value(), sizes).ok()) return 0;
  const ImportPlan plan = decode_plan(encode_plan(read.value()).value()).value();
  UNBROKEN_CHECK(check_plan(plan, sizes).ok() && plan.tree == read.value().tree);
  for (const ChecksummedRange& range : plan.checks)
    UNBROKEN_CHECK(read_range(source, range.offset, range.bytes, size).ok());
  return 0;
}
