#include "format/index.h"

#include <fmt/format.h>

#include "format/features.h"
#include "format/index_rules.h"
#include "format/members.h"
#include "state/json_text.h"

namespace unbroken {

namespace {

constexpr JsonLimits kLimits{.bytes = kIndexBytesMax, .depth = kTreeJsonDepthMax + 4};

/// One row: name, dtype, shape, offset, bytes, digest, and the box where there is one.
void put_tensor(std::string& out, const IndexedTensor& tensor) {
  out += '[';
  put_text(out, tensor.name);
  out += ',';
  put_text(out, name_of(tensor.dtype));
  out += ',';
  put_numbers(out, tensor.shape);
  out += ',';
  put_number(out, tensor.offset);
  out += ',';
  put_number(out, tensor.bytes);
  out += ',';
  put_text(out, tensor.digest.hex());
  if (tensor.box) {
    out += ",[";
    put_numbers(out, tensor.box->begin);
    out += ',';
    put_numbers(out, tensor.box->end);
    out += ']';
  }
  out += ']';
}

void put_alias(std::string& out, const Alias& alias) {
  out += '[';
  put_text(out, alias.name);
  out += ',';
  put_text(out, alias.of);
  out += ']';
}

template <class T>
void put_list(std::string& out, const std::vector<T>& list, void (*put)(std::string&, const T&)) {
  out += '[';
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i != 0) out += ',';
    put(out, list[i]);
  }
  out += ']';
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

Result<IndexedTensor> tensor_from(const Json& row) {
  const auto bad = [](std::string_view why) { return Error(Code::corrupt, fmt::format("tensor: {}", why)); };
  if (!row.is_array() || row.size() < 6 || row.size() > 7) return bad("it is not a row of 6 or 7");
  if (!row[0].is_string() || !row[1].is_string() || !row[3].is_number_unsigned() ||
      !row[4].is_number_unsigned() || !row[5].is_string())
    return bad("a cell is of another kind");
  IndexedTensor out;
  out.name = row[0].get<std::string>();
  const auto dtype = dtype_from_name(row[1].get_ref<const std::string&>());
  if (!dtype) return bad("its dtype is unknown");
  out.dtype = *dtype;
  UNBROKEN_TRY(out.shape, shape_from(row[2]));
  out.offset = row[3].get<std::uint64_t>();
  out.bytes = row[4].get<std::uint64_t>();
  const auto digest = Xxh128::from_hex(row[5].get_ref<const std::string&>());
  if (!digest.ok()) return bad(digest.error().what());
  out.digest = digest.value();
  if (row.size() == 7) {
    if (!row[6].is_array() || row[6].size() != 2) return bad("a box is not a pair");
    out.box.emplace();
    UNBROKEN_TRY(out.box->begin, shape_from(row[6][0]));
    UNBROKEN_TRY(out.box->end, shape_from(row[6][1]));
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
  if (auto fine = check_tree(index.tree); !fine.ok())
    return Error(Code::bad_argument, "state tree: " + fine.error().what());
  std::string text;  // members in the order of canonical JSON
  text.reserve(4096 + 320 * index.tensors.size());
  text += R"({"aliases":)";
  put_list(text, index.aliases, &put_alias);
  text += fmt::format(R"(,"chunk_bytes":{},"critical":[],"data_offset":{},"file_bytes":{},"format":{},)",
                      index.chunk_bytes, index.data_offset, index.file_bytes, kFormat);
  text += fmt::format(R"("hash":"XXH3-128","nonce":"{}","save":"{}","tensors":)", index.nonce.hex(),
                      index.save.name());
  put_list(text, index.tensors, &put_tensor);
  text += R"(,"tree":)";
  put_tree(text, index.tree);
  text += fmt::format(R"(,"writer":{},"writers":{}}})", index.writer, index.writers);
  add_seal(text);
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
