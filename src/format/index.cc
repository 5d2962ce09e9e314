#include "format/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "format/features.h"
#include "format/index_rules.h"
#include "format/members.h"

namespace unbroken {

namespace {

constexpr JsonLimits kLimits{.bytes = kIndexBytesMax, .depth = kTreeJsonDepthMax + 4};

Json tensor_to_json(const IndexedTensor& tensor) {
  Json out{{"name", tensor.name},     {"dtype", name_of(tensor.dtype)}, {"shape", tensor.shape},
           {"offset", tensor.offset}, {"bytes", tensor.bytes},          {"xxh128", tensor.digest.hex()}};
  if (tensor.box) out["box"] = Json{{"begin", tensor.box->begin}, {"end", tensor.box->end}};
  return out;
}

Result<Shape> shape_from(const Json& list) {
  Shape shape;
  if (!list.is_array() || list.size() > kRankMax) return Error(Code::corrupt, "tensor: a shape is not one");
  shape.reserve(list.size());
  for (const Json& axis : list) {
    if (!axis.is_number_unsigned()) return Error(Code::corrupt, "tensor: an axis is not a whole number");
    shape.push_back(axis.get<std::uint64_t>());
  }
  return shape;
}

Result<IndexedTensor> tensor_from(const Json& value) {
  Fields f(value, "tensor");
  IndexedTensor out;
  out.name = f.text("name", kNameBytesMax);
  const auto dtype = dtype_from_name(f.text("dtype", 32));
  if (!dtype) f.fail("its dtype is unknown");
  out.dtype = dtype.value_or(DType::u8);
  out.offset = f.u64("offset");
  out.bytes = f.u64("bytes");
  out.digest = f.xxh128("xxh128");
  const Json& shape = f.any("shape");
  UNBROKEN_DO(f.end());
  UNBROKEN_TRY(out.shape, shape_from(shape));
  if (f.has("box")) {
    Fields b(f.object("box"), "box");
    const Json& begin = b.any("begin");
    const Json& end = b.any("end");
    UNBROKEN_DO(b.end());
    out.box.emplace();
    UNBROKEN_TRY(out.box->begin, shape_from(begin));
    UNBROKEN_TRY(out.box->end, shape_from(end));
  }
  return out;
}

Result<Alias> alias_from(const Json& value) {
  if (!value.is_array() || value.size() != 2 || !value[0].is_string() || !value[1].is_string())
    return Error(Code::corrupt, "index: an alias is not a pair of names");
  return Alias{value[0].get<std::string>(), value[1].get<std::string>()};
}

}  // namespace

const IndexedTensor* Index::find(std::string_view name) const {
  for (const Alias& alias : aliases)
    if (alias.name == name) name = alias.of;
  for (const IndexedTensor& tensor : tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

Result<std::string> encode_index(const Index& index) {
  if (auto fine = check_index(index); !fine.ok()) return Error(Code::bad_argument, fine.error().what());
  Json tree = to_json(index.tree);
  if (auto again = node_from_json(tree); !again.ok())
    return Error(Code::bad_argument, "state tree: " + again.error().what());
  Json tensors = Json::array();
  for (const IndexedTensor& tensor : index.tensors) tensors.push_back(tensor_to_json(tensor));
  Json aliases = Json::array();
  for (const Alias& alias : index.aliases) aliases.push_back(Json::array({alias.name, alias.of}));
  Json out{{"save", index.save.name()},
           {"writer", index.writer},
           {"writers", index.writers},
           {"nonce", index.nonce.hex()},
           {"hash", "XXH3-128"},
           {"chunk_bytes", index.chunk_bytes},
           {"data_offset", index.data_offset},
           {"file_bytes", index.file_bytes},
           {"tensors", std::move(tensors)},
           {"aliases", std::move(aliases)},
           {"tree", std::move(tree)}};
  put_features(out);
  UNBROKEN_TRY(std::string text, seal(out));
  if (text.size() > kIndexBytesMax)
    return Error(Code::bad_argument,
                 fmt::format("an index of {} bytes, at most {} are written", text.size(), kIndexBytesMax));
  return text;
}

Result<Index> decode_index(std::string_view text) {
  UNBROKEN_TRY(const Sealed sealed, open_sealed(text, kLimits));
  const Json& value = sealed.value;
  UNBROKEN_DO(check_features(value, "index"));
  Fields f(value, "index");
  Index out;
  out.save = save_member(f, "save");
  out.writer = f.u32("writer");
  out.writers = f.u32("writers");
  out.nonce = f.nonce("nonce");
  if (f.text("hash", 32) != "XXH3-128") f.fail("its hash is not XXH3-128");
  out.chunk_bytes = f.u64("chunk_bytes");
  out.data_offset = f.u64("data_offset");
  out.file_bytes = f.u64("file_bytes");
  const Json& tensors = f.array("tensors", UINT32_MAX);
  const Json& aliases = f.array("aliases", UINT32_MAX);
  const Json& tree = f.any("tree");
  UNBROKEN_DO(f.end());
  out.tensors.reserve(tensors.size());
  for (const Json& entry : tensors) {
    UNBROKEN_TRY(IndexedTensor tensor, tensor_from(entry));
    out.tensors.push_back(std::move(tensor));
  }
  for (const Json& entry : aliases) {
    UNBROKEN_TRY(Alias alias, alias_from(entry));
    out.aliases.push_back(std::move(alias));
  }
  auto node = node_from_json(tree);
  if (!node.ok()) return std::move(node).error().with("state tree");
  out.tree = std::move(node).value();
  UNBROKEN_DO(check_index(out));
  return out;
}

}  // namespace unbroken
