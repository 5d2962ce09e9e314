// Reads a safetensors header without building it as a whole: members go straight into the table, so that a
// hostile header costs a few times its own length and no more.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "format/shard.h"
#include "state/names.h"

namespace unbroken {

namespace {

using SaxBase = nlohmann::json_sax<nlohmann::json>;

class HeaderReader final : public SaxBase {
 public:
  std::vector<HeaderTensor> tensors;
  std::map<std::string, std::string> metadata;
  const std::string& why() const { return why_; }

  bool null() override { return stop("a null where none may be"); }
  bool boolean(bool) override { return stop("true or false where none may be"); }
  bool number_float(number_float_t, const string_t&) override {
    return stop("a number that is not a whole one");
  }
  bool number_integer(number_integer_t) override { return stop("a negative number"); }
  bool binary(binary_t&) override { return stop("a binary value"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::shape) {
      if (tensors.back().shape.size() == kRankMax) return stop("too many axes");
      tensors.back().shape.push_back(value);
      return true;
    }
    if (place_ == Place::offsets) {
      if (offsets_ == 2) return stop("data_offsets holds more than two numbers");
      (offsets_++ == 0 ? tensors.back().offset : end_) = value;
      return true;
    }
    return stop("a number where none may be");
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) return metadata_value(value);
    if (place_ != Place::entry || member_ != Member::dtype) return stop("a text where none may be");
    const auto dtype = dtype_from_name(value);
    if (!dtype || !is_stored(*dtype))
      return stop(fmt::format("dtype \"{}\" is unknown", value.substr(0, 32)));
    tensors.back().dtype = *dtype;
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::outside) return move_to(Place::top);
    if (place_ != Place::top) return stop("an object where none may be");
    return move_to(is_metadata_ ? Place::metadata : Place::entry);
  }

  bool key(string_t& value) override {
    if (place_ == Place::metadata) {
      metadata_key_ = std::move(value);
      return true;
    }
    return place_ == Place::top ? tensor_name(value) : entry_member(value);
  }

  bool end_object() override {
    if (place_ == Place::entry) {
      if (members_ != 7) return stop("an entry lacks dtype, shape or data_offsets");
      if (!close_entry()) return false;
    }
    return move_to(place_ == Place::top ? Place::outside : Place::top);
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::entry && member_ == Member::shape) return move_to(Place::shape);
    if (place_ == Place::entry && member_ == Member::offsets) return move_to(Place::offsets);
    return stop("a list where none may be");
  }

  bool end_array() override {
    if (place_ == Place::offsets && offsets_ != 2) return stop("data_offsets does not hold two numbers");
    return move_to(Place::entry);
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return stop(fmt::format("not JSON at byte {}", position));
  }

 private:
  enum class Place : std::uint8_t { outside, top, metadata, entry, shape, offsets };
  enum class Member : std::uint8_t { none, dtype = 1, shape = 2, offsets = 4 };

  bool stop(std::string why) {
    if (why_.empty()) why_ = std::move(why);
    return false;
  }
  bool move_to(Place place) {
    place_ = place;
    return true;
  }

  bool tensor_name(string_t& name) {
    is_metadata_ = name == "__metadata__";
    if (is_metadata_) {
      if (has_metadata_) return stop("__metadata__ stands twice");
      has_metadata_ = true;
      return true;
    }
    if (const auto fine = check_name(name); !fine.ok()) return stop(fine.error().what());
    tensors.emplace_back();
    tensors.back().name = std::move(name);
    members_ = 0;
    offsets_ = 0;
    return true;
  }

  bool entry_member(const string_t& name) {
    member_ = name == "dtype"          ? Member::dtype
              : name == "shape"        ? Member::shape
              : name == "data_offsets" ? Member::offsets
                                       : Member::none;
    if (member_ == Member::none) return stop("an entry has a member of another name");
    const unsigned bit = static_cast<unsigned>(member_);
    if ((members_ & bit) != 0) return stop("an entry has a member twice");
    members_ |= bit;
    return true;
  }

  bool metadata_value(string_t& value) {
    if (!metadata.emplace(std::move(metadata_key_), std::move(value)).second)
      return stop("a key of __metadata__ stands twice");
    metadata_key_.clear();
    return true;
  }

  bool close_entry() {
    HeaderTensor& tensor = tensors.back();
    if (end_ < tensor.offset) return stop(fmt::format("\"{}\" ends before it begins", tensor.name));
    tensor.bytes = end_ - tensor.offset;
    const auto bytes = byte_size(tensor.dtype, tensor.shape);
    if (!bytes.ok()) return stop(fmt::format("\"{}\": {}", tensor.name, bytes.error().what()));
    if (bytes.value() != tensor.bytes)
      return stop(fmt::format("\"{}\" is {} of {} bytes but has {}", tensor.name,
                              describe(tensor.dtype, tensor.shape), bytes.value(), tensor.bytes));
    return true;
  }

  Place place_ = Place::outside;
  Member member_ = Member::none;
  unsigned members_ = 0;  ///< bits of Member
  unsigned offsets_ = 0;  ///< numbers read of data_offsets
  std::uint64_t end_ = 0;
  bool is_metadata_ = false, has_metadata_ = false;
  std::string metadata_key_;
  std::string why_;
};

Error corrupt(std::string_view why) {
  return Error(Code::corrupt, fmt::format("safetensors header: {}", why));
}

Result<> check_unique(const std::vector<HeaderTensor>& tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const HeaderTensor& tensor : tensors) names.emplace_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) return corrupt(fmt::format("\"{}\" stands twice", *twice));
  return Done{};
}

/// No hole, no overlap, ending where the file does.
Result<> check_tiling(const std::vector<HeaderTensor>& tensors, std::uint64_t data_bytes) {
  std::uint64_t at = 0;
  for (const HeaderTensor& tensor : tensors) {
    if (tensor.offset != at)
      return corrupt(fmt::format("\"{}\" begins at {} of the data, expected {}: {}", tensor.name,
                                 tensor.offset, at, tensor.offset > at ? "a hole" : "an overlap"));
    at = tensor.offset + tensor.bytes;
  }
  if (at != data_bytes)
    return corrupt(fmt::format("the tensors end at {} of {} bytes of data", at, data_bytes));
  return Done{};
}

std::uint64_t load_size(Bytes first_8) {
  std::uint64_t size = 0;
  for (unsigned i = 0; i < 8; ++i) size |= std::to_integer<std::uint64_t>(first_8[i]) << (8 * i);
  return size;
}

}  // namespace

Result<std::uint64_t> header_size(Bytes first_8, std::uint64_t file_bytes) {
  if (first_8.size() < 8 || file_bytes < 8) return corrupt("the file is shorter than 8 bytes");
  const std::uint64_t json_bytes = load_size(first_8);
  if (json_bytes > kHeaderBytesMax)
    return corrupt(fmt::format("it states {} bytes, at most {} are read", json_bytes, kHeaderBytesMax));
  if (json_bytes > file_bytes - 8)
    return corrupt(fmt::format("it states {} bytes in a file of {}", json_bytes, file_bytes));
  return json_bytes + 8;
}

Result<ShardHeader> read_header(Bytes head, std::uint64_t file_bytes) {
  UNBROKEN_TRY(const std::uint64_t size, header_size(head, file_bytes));
  if (head.size() != size) return corrupt(fmt::format("{} of {} bytes were given", head.size(), size));
  const std::string_view json = as_text(head.subspan(8));
  if (!json.starts_with('{')) return corrupt("it does not begin with '{'");
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &reader)) return corrupt(reader.why());

  ShardHeader out;
  out.tensors = std::move(reader.tensors);
  out.metadata = std::move(reader.metadata);
  out.data_offset = size;
  UNBROKEN_DO(check_unique(out.tensors));
  std::sort(out.tensors.begin(), out.tensors.end(), [](const HeaderTensor& a, const HeaderTensor& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
  });
  UNBROKEN_DO(check_tiling(out.tensors, file_bytes - size));
  for (HeaderTensor& tensor : out.tensors) tensor.offset += size;
  return out;
}

}  // namespace unbroken
