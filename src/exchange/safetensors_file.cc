// A safetensors file, and how foreign files are told apart.
#include <fmt/format.h>

#include "exchange/foreign_files.h"
#include "exchange/strided.h"
#include "format/shard.h"

namespace unbroken {

namespace {

/// The header begins with '{' in the ninth byte, and its length fits the file.
bool looks_like_safetensors(std::string_view head, std::uint64_t file_bytes) {
  return head.size() > 8 && head[8] == '{' && header_size(as_bytes(head.substr(0, 8)), file_bytes).ok();
}

}  // namespace

Result<ForeignKind> foreign_kind(const ByteSource& file) {
  const std::uint64_t count = std::min<std::uint64_t>(file.bytes(), 16);
  UNBROKEN_TRY(const std::string head, read_range(file, 0, count, count));
  if (looks_like_safetensors(head, file.bytes())) return ForeignKind::safetensors;
  if (looks_like_zip(head)) return ForeignKind::torch_zip;
  if (head.size() > 1 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5) return ForeignKind::torch_legacy;
  return Error(Code::corrupt, "it is neither a safetensors file nor one of torch.save");
}

Result<ImportPlan> read_safetensors(const ByteSource& file, LeftOut without) {
  if (file.bytes() < 8) return Error(Code::corrupt, "safetensors header: it is cut short");
  UNBROKEN_TRY(const std::string first, read_range(file, 0, 8, 8));
  UNBROKEN_TRY(const std::uint64_t head_bytes, header_size(as_bytes(first), file.bytes()));
  UNBROKEN_TRY(const std::string head, read_range(file, 0, head_bytes, kHeaderBytesMax + 8));
  UNBROKEN_TRY(const ShardHeader header, read_header(as_bytes(head), file.bytes()));
  ImportPlan plan;
  plan.has_unchecked_bytes = !header.tensors.empty();
  Dict top;
  for (const HeaderTensor& tensor : header.tensors) {
    if (is_left_out(without, tensor.name)) {
      plan.left_out.push_back(tensor.name);
      continue;
    }
    ImportedPiece piece{.file = 0,
                        .offset = tensor.offset,
                        .strides = {},
                        .box = {Shape(tensor.shape.size(), 0), tensor.shape}};
    UNBROKEN_TRY(piece.strides, contiguous_strides(tensor.shape));
    plan.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, {}});
    if (tensor.bytes != 0) plan.tensors.back().pieces.push_back(std::move(piece));
    top.items.push_back({Node{tensor.name}, Node{TensorRef{tensor.name, false}}});
  }
  plan.tree = Node{std::move(top)};
  return plan;
}

}  // namespace unbroken
