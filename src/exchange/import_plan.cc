#include "exchange/import_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "base/text.h"
#include "exchange/pickle/pickle_globals.h"
#include "exchange/strided.h"
#include "state/names.h"

namespace unbroken {

namespace {

constexpr JsonLimits kLimits{.bytes = std::size_t{1} << 29, .depth = 80, .nodes = std::size_t{1} << 26};
/// Views that overlap are written once each; a file of them must not become a thousand times its size.
constexpr std::uint64_t kGrowthMax = 16, kGrowthFree = std::uint64_t{64} << 20;
constexpr std::size_t kPiecesMax = 4096;

Error corrupt(std::string why) {
  return Error(Code::corrupt, std::move(why));
}

std::string framed(std::string_view bytes) {
  std::string out(8, '\0');
  for (unsigned i = 0; i < 8; ++i) out[i] = static_cast<char>(bytes.size() >> (8 * i) & 255);
  out += bytes;
  return out;
}

Result<std::string_view> take_frame(std::string_view& rest) {
  if (rest.size() < 8) return corrupt("the reader's answer is cut short");
  std::uint64_t count = 0;
  for (unsigned i = 0; i < 8; ++i) count |= std::uint64_t{static_cast<unsigned char>(rest[i])} << (8 * i);
  rest.remove_prefix(8);
  if (count > rest.size()) return corrupt("the reader's answer is cut short");
  const std::string_view frame = rest.substr(0, count);
  rest.remove_prefix(count);
  return frame;
}

Json to_json(const ImportedPiece& piece) {
  return {{"file", piece.file},
          {"offset", piece.offset},
          {"strides", piece.strides},
          {"begin", piece.box.begin},
          {"end", piece.box.end}};
}

Json to_json(const ImportedTensor& tensor) {
  Json pieces = Json::array();
  for (const ImportedPiece& piece : tensor.pieces) pieces.push_back(to_json(piece));
  return {{"name", tensor.name},
          {"dtype", name_of(tensor.dtype)},
          {"shape", tensor.shape},
          {"pieces", std::move(pieces)}};
}

std::vector<std::uint64_t> numbers(Fields& fields, const char* key) {
  std::vector<std::uint64_t> out;
  for (const Json& number : fields.array(key, kRankMax + 1)) {
    if (!number.is_number_unsigned()) fields.fail(fmt::format("{} holds what is no number", key));
    out.push_back(number.is_number_unsigned() ? number.get<std::uint64_t>() : 0);
  }
  return out;
}

Result<ImportedPiece> piece_from(const Json& json) {
  Fields fields(json, "piece");
  ImportedPiece piece;
  piece.file = fields.u32("file");
  piece.offset = fields.u64("offset");
  piece.strides = numbers(fields, "strides");
  piece.box.begin = numbers(fields, "begin");
  piece.box.end = numbers(fields, "end");
  UNBROKEN_DO(fields.end());
  return piece;
}

Result<ImportedTensor> tensor_from(const Json& json) {
  Fields fields(json, "tensor");
  ImportedTensor tensor;
  tensor.name = fields.text("name");
  const auto dtype = dtype_from_name(fields.text("dtype"));
  if (!dtype) fields.fail("unknown dtype");
  tensor.dtype = dtype.value_or(DType::u8);
  tensor.shape = numbers(fields, "shape");
  for (const Json& piece : fields.array("pieces", kPiecesMax)) {
    UNBROKEN_TRY(tensor.pieces.emplace_back(), piece_from(piece));
  }
  UNBROKEN_DO(fields.end());
  return tensor;
}

Json to_json(const std::vector<ImportRemark>& remarks) {
  Json out = Json::array();
  for (const ImportRemark& remark : remarks)
    out.push_back({{"name", remark.name}, {"entry", remark.entry}, {"what", remark.what}});
  return out;
}

Result<std::vector<ImportRemark>> remarks_from(Fields& fields, const char* key) {
  std::vector<ImportRemark> out;
  for (const Json& remark : fields.array(key, kLimits.nodes)) {
    Fields inner(remark, "remark");
    out.push_back({inner.text("name"), inner.text("entry"), inner.text("what")});
    UNBROKEN_DO(inner.end());
  }
  return out;
}

Result<> read_members(const Json& json, ImportPlan& plan) {
  Fields fields(json, "plan");
  for (const Json& tensor : fields.array("tensors", kLimits.nodes)) {
    UNBROKEN_TRY(plan.tensors.emplace_back(), tensor_from(tensor));
  }
  for (const Json& alias : fields.array("aliases", kLimits.nodes)) {
    Fields inner(alias, "alias");
    plan.aliases.push_back({inner.text("name"), inner.text("of")});
    UNBROKEN_DO(inner.end());
  }
  for (const Json& check : fields.array("checks", kLimits.nodes)) {
    Fields inner(check, "check");
    plan.checks.push_back({.what = inner.text("what"),
                           .file = inner.u32("file"),
                           .offset = inner.u64("offset"),
                           .bytes = inner.u64("bytes"),
                           .crc32 = inner.u32("crc32")});
    UNBROKEN_DO(inner.end());
  }
  UNBROKEN_TRY(plan.refused, remarks_from(fields, "refused"));
  UNBROKEN_TRY(plan.changed, remarks_from(fields, "changed"));
  for (const Json& name : fields.array("left_out", kLimits.nodes)) {
    if (!name.is_string()) return corrupt("the reader's answer names what is no text");
    plan.left_out.push_back(name.get<std::string>());
  }
  plan.has_unchecked_bytes = fields.boolean("has_unchecked_bytes");
  return fields.end();
}

// -- Checks

/// "1 value in it cannot be kept: args (argparse.Namespace); ..."
std::string text_of(const std::vector<ImportRemark>& refused) {
  constexpr std::size_t kShown = 8;
  std::string list;
  for (std::size_t i = 0; i < std::min(refused.size(), kShown); ++i)
    list += fmt::format("{}{} ({})", i == 0 ? "" : ", ", foreign_text(refused[i].name), refused[i].what);
  if (refused.size() > kShown) list += fmt::format(", and {} more", refused.size() - kShown);
  return fmt::format("{} in it cannot be kept: {}; nothing of it was run",
                     refused.size() == 1 ? "1 value" : fmt::format("{} values", refused.size()), list);
}

Result<Shape> extent_of(const ImportedTensor& tensor, const Box& box) {
  const std::size_t rank = tensor.shape.size();
  if (box.begin.size() != rank || box.end.size() != rank)
    return corrupt(fmt::format("{}: a piece has another rank", tensor.name));
  Shape extent;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (box.begin[axis] > box.end[axis] || box.end[axis] > tensor.shape[axis])
      return corrupt(fmt::format("{}: a piece is not in it", tensor.name));
    extent.push_back(box.end[axis] - box.begin[axis]);
  }
  return extent;
}

bool overlap(const Box& a, const Box& b) {
  for (std::size_t axis = 0; axis < a.begin.size(); ++axis)
    if (a.end[axis] <= b.begin[axis] || b.end[axis] <= a.begin[axis]) return false;
  return true;
}

Result<> check_piece(const ImportedTensor& tensor, const ImportedPiece& piece, const Shape& extent,
                     std::uint64_t file_bytes) {
  const auto outside = [&] {
    return corrupt(fmt::format("{}: its bytes do not lie in the file", tensor.name));
  };
  if (piece.offset > file_bytes) return outside();
  const unsigned bits = bits_of(tensor.dtype);
  if (bits % 8 != 0) {  // several elements a byte: only as safetensors has them, packed
    const auto bytes = byte_size(tensor.dtype, extent);
    if (piece.strides.size() != extent.size() || !are_contiguous(extent, piece.strides) || !bytes.ok() ||
        bytes.value() > file_bytes - piece.offset)
      return outside();
    return Done{};
  }
  auto fits = check_strided(extent, piece.strides, 0, (file_bytes - piece.offset) / (bits / 8));
  if (!fits.ok()) return std::move(fits).error().with(tensor.name);
  return Done{};
}

Result<> check_tensor(const ImportedTensor& tensor, std::uint64_t bytes,
                      std::span<const std::uint64_t> file_bytes, std::uint64_t inline_bytes) {
  const auto count = element_count(tensor.shape);
  if (!count.ok()) return corrupt(fmt::format("{}: {}", tensor.name, count.error().what()));
  std::uint64_t covered = 0;
  for (std::size_t i = 0; i < tensor.pieces.size(); ++i) {
    const ImportedPiece& piece = tensor.pieces[i];
    const bool is_inline = piece.file == ImportedPiece::kInline;
    if (!is_inline && piece.file >= file_bytes.size())
      return corrupt("a tensor lies in a file that is not open");
    UNBROKEN_TRY(const Shape extent, extent_of(tensor, piece.box));
    UNBROKEN_DO(check_piece(tensor, piece, extent, is_inline ? inline_bytes : file_bytes[piece.file]));
    covered += element_count(extent).value();  // within the shape, whose count fits
    for (std::size_t j = 0; j < i; ++j)
      if (overlap(piece.box, tensor.pieces[j].box))
        return corrupt(fmt::format("{}: two pieces of it overlap", tensor.name));
  }
  if (covered != count.value()) return corrupt(fmt::format("{}: a part of it is missing", tensor.name));
  if (tensor.pieces.empty() && bytes != 0) return corrupt(fmt::format("{}: it is missing", tensor.name));
  return Done{};
}

}  // namespace

Result<std::string> encode_plan(const ImportPlan& plan) {
  Json tensors = Json::array(), aliases = Json::array(), checks = Json::array();
  for (const ImportedTensor& tensor : plan.tensors) tensors.push_back(to_json(tensor));
  for (const Alias& alias : plan.aliases) aliases.push_back({{"name", alias.name}, {"of", alias.of}});
  for (const ChecksummedRange& check : plan.checks)
    checks.push_back({{"what", check.what},
                      {"file", check.file},
                      {"offset", check.offset},
                      {"bytes", check.bytes},
                      {"crc32", check.crc32}});
  UNBROKEN_TRY(const std::string members,
               canonical_json({{"tensors", std::move(tensors)},
                               {"aliases", std::move(aliases)},
                               {"checks", std::move(checks)},
                               {"refused", to_json(plan.refused)},
                               {"changed", to_json(plan.changed)},
                               {"left_out", plan.left_out},
                               {"has_unchecked_bytes", plan.has_unchecked_bytes}}));
  return framed(tree_text(plan.tree)) + framed(members) + framed(plan.inline_bytes);
}

Result<ImportPlan> decode_plan(std::string_view bytes) {
  ImportPlan plan;
  UNBROKEN_TRY(const std::string_view tree, take_frame(bytes));
  UNBROKEN_TRY(const std::string_view members, take_frame(bytes));
  UNBROKEN_TRY(plan.inline_bytes, take_frame(bytes));
  UNBROKEN_TRY(plan.tree, parse_tree(tree, {.bytes = kLimits.bytes, .depth = kTreeJsonDepthMax}));
  UNBROKEN_TRY(const Json json, parse_json(members, kLimits));
  UNBROKEN_DO(read_members(json, plan));
  return plan;
}

bool is_left_out(LeftOut without, std::string_view name) {
  return std::any_of(without.begin(), without.end(),
                     [name](const std::string& glob) { return glob_matches(glob, name); });
}

Result<> check_plan(const ImportPlan& plan, std::span<const std::uint64_t> file_bytes) {
  if (!plan.refused.empty()) return corrupt(text_of(plan.refused));
  std::unordered_set<std::string_view> names;
  std::uint64_t total = 0;
  const std::uint64_t there =
      std::accumulate(file_bytes.begin(), file_bytes.end(), std::uint64_t{plan.inline_bytes.size()});
  for (const ImportedTensor& tensor : plan.tensors) {
    if (auto fine = check_name(tensor.name); !fine.ok()) return corrupt(fine.error().what());
    if (!names.insert(tensor.name).second) return corrupt(fmt::format("\"{}\" stands twice", tensor.name));
    if (stored_form(tensor.dtype, tensor.shape).shape.size() > kRankMax)
      return corrupt(fmt::format("{}: it has too many axes", tensor.name));
    const auto bytes = byte_size(tensor.dtype, tensor.shape);
    if (!bytes.ok()) return corrupt(fmt::format("{}: {}", tensor.name, bytes.error().what()));
    UNBROKEN_DO(check_tensor(tensor, bytes.value(), file_bytes, plan.inline_bytes.size()));
    total += bytes.value();
    if (total > kGrowthFree && total / kGrowthMax > there)
      return corrupt(fmt::format("its tensors say that they hold more than {} times its bytes", kGrowthMax));
  }
  for (const ChecksummedRange& check : plan.checks)
    if (check.file >= file_bytes.size() || check.offset > file_bytes[check.file] ||
        check.bytes > file_bytes[check.file] - check.offset)
      return corrupt("a checksum covers what is not in the file");
  return Done{};
}

}  // namespace unbroken
