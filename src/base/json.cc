#include "base/json.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

namespace unbroken {

namespace {

/// Builds a Json while it counts; any cap or a repeated key stops the parse.
class CappedReader final : public nlohmann::json_sax<Json> {
 public:
  explicit CappedReader(const JsonLimits& limits) : limits_(limits) {}
  Json take() { return std::move(root_); }
  const std::string& why() const { return why_; }

  bool null() override { return put(nullptr); }
  bool boolean(bool v) override { return put(v); }
  bool number_integer(number_integer_t v) override { return put(v); }
  bool number_unsigned(number_unsigned_t v) override { return put(v); }
  bool number_float(number_float_t v, const string_t&) override { return put(v); }
  bool string(string_t& v) override { return put(std::move(v)); }
  bool binary(binary_t&) override { return stop("binary value"); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool key(string_t& v) override {
    if (stack_.back()->contains(v)) return stop("key \"" + v + "\" stands twice");
    key_ = std::move(v);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    return stop(fmt::format("at byte {}: {}", position, e.what()));
  }

 private:
  bool stop(std::string why) {
    if (why_.empty()) why_ = std::move(why);
    return false;
  }
  Json* place(Json value) {
    if (stack_.empty()) return &(root_ = std::move(value));
    Json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[key_] = std::move(value));
  }
  bool put(Json value) {
    if (++nodes_ > limits_.nodes) return stop("too many values");
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (++nodes_ > limits_.nodes) return stop("too many values");
    if (stack_.size() >= limits_.depth) return stop("nested too deeply");
    stack_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    stack_.pop_back();
    return true;
  }

  const JsonLimits& limits_;
  Json root_;
  std::vector<Json*> stack_;  // stays valid: only the innermost container grows
  std::string key_;
  std::string why_;
  std::size_t nodes_ = 0;
};

constexpr std::string_view kSealPrefix = "sha256:";
constexpr std::size_t kSealBytes = 7 + 64 + 1;

Result<Sealed> open_one(std::string_view text, const JsonLimits& limits) {
  const std::size_t newline = text.find('\n');
  if (newline == std::string_view::npos) return Error(Code::corrupt, "has no seal");
  const std::string_view line = text.substr(0, newline);
  const std::string_view seal_line = text.substr(newline + 1);
  if (seal_line.size() != kSealBytes || !seal_line.starts_with(kSealPrefix) || seal_line.back() != '\n')
    return Error(Code::corrupt, "has no whole seal");
  Sealed out;
  out.digest = sha256(as_bytes(line));
  if (out.digest.hex() != seal_line.substr(kSealPrefix.size(), 64))
    return Error(Code::corrupt, "does not fit its SHA-256");
  UNBROKEN_TRY(out.value, parse_json(line, limits));
  const auto again = canonical_json(out.value);
  if (!again.ok() || again.value() != line) return Error(Code::corrupt, "is not in canonical form");
  return out;
}

}  // namespace

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes)
    return Error(Code::corrupt,
                 fmt::format("{} bytes of JSON, at most {} are read", text.size(), limits.bytes));
  CappedReader reader(limits);
  if (!Json::sax_parse(text.begin(), text.end(), &reader)) return Error(Code::corrupt, reader.why());
  return reader.take();
}

Result<std::string> canonical_json(const Json& value) {
  try {
    return value.dump();
  } catch (const Json::exception& e) {
    return Error(Code::bad_argument, e.what());
  }
}

Json json_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

Result<double> number_from_json(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "NaN") return std::nan("");
  if (value == "Infinity") return HUGE_VAL;
  if (value == "-Infinity") return -HUGE_VAL;
  return Error(Code::corrupt, "not a number, nor NaN, Infinity or -Infinity");
}

void add_seal(std::string& canonical) {
  const std::string hex = sha256(as_bytes(canonical)).hex();
  canonical += '\n';
  canonical += kSealPrefix;
  canonical += hex;
  canonical += '\n';
}

Result<std::string> seal(const Json& value) {
  UNBROKEN_TRY(std::string text, canonical_json(value));
  add_seal(text);
  return text;
}

Result<Sealed> open_sealed(std::string_view text, const JsonLimits& limits) {
  return open_one(text, limits);
}

Result<std::string> seal_twice(const Json& value) {
  UNBROKEN_TRY(std::string once, seal(value));
  return once + once;
}

Result<Sealed> open_sealed_twice(std::string_view text, const JsonLimits& limits) {
  // Both copies have one length, so the cut is in the middle whatever a flipped bit did to the newlines.
  if (text.empty() || text.size() % 2 != 0) return Error(Code::corrupt, "does not hold two copies");
  auto first = open_one(text.substr(0, text.size() / 2), limits);
  auto second = open_one(text.substr(text.size() / 2), limits);
  if (first.ok() && second.ok()) {
    if (first.value().digest != second.value().digest)
      return Error(Code::corrupt, "holds two copies that differ");
    return first;
  }
  if (!first.ok() && !second.ok()) return first;
  Sealed out = first.ok() ? std::move(first).value() : std::move(second).value();
  out.is_repaired = true;
  return out;
}

Fields::Fields(const Json& object, std::string what) : object_(object), what_(std::move(what)) {
  if (!object.is_object()) fail("is not an object");
}

void Fields::fail(std::string why) {
  if (!error_) error_ = Error(Code::corrupt, what_ + ": " + why);
}

bool Fields::has(const char* key) const {
  return object_.is_object() && object_.contains(key);
}

const Json& Fields::any(const char* key, bool is_optional) {
  static const Json kNull;
  if (object_.is_object()) {
    if (const auto it = object_.find(key); it != object_.end()) return *it;
    if (!is_optional) fail(fmt::format("\"{}\" is missing", key));
  }
  return kNull;
}

std::uint64_t Fields::u64(const char* key, std::uint64_t max) {
  const Json& value = any(key);
  if (error_) return 0;
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > max) {
    fail(fmt::format("\"{}\" is not a whole number up to {}", key, max));
    return 0;
  }
  return value.get<std::uint64_t>();
}

bool Fields::boolean(const char* key) {
  const Json& value = any(key);
  if (error_) return false;
  if (!value.is_boolean()) fail(fmt::format("\"{}\" is not true or false", key));
  return value.is_boolean() && value.get<bool>();
}

std::string Fields::text(const char* key, std::size_t bytes_max) {
  const Json& value = any(key);
  if (error_) return {};
  if (!value.is_string() || value.get_ref<const std::string&>().size() > bytes_max) {
    fail(fmt::format("\"{}\" is not a text of at most {} bytes", key, bytes_max));
    return {};
  }
  return value.get<std::string>();
}

namespace {

template <class T>
T hex_field(Fields& fields, const char* key, Result<T> (*parse)(std::string_view)) {
  const std::string text = fields.text(key, 64);
  if (!fields.end().ok()) return {};
  auto value = parse(text);
  if (!value.ok()) {
    fields.fail(fmt::format("\"{}\": {}", key, value.error().what()));
    return {};
  }
  return value.value();
}

}  // namespace

Sha256 Fields::sha256(const char* key) {
  return hex_field<Sha256>(*this, key, &Sha256::from_hex);
}
Xxh128 Fields::xxh128(const char* key) {
  return hex_field<Xxh128>(*this, key, &Xxh128::from_hex);
}
Nonce Fields::nonce(const char* key) {
  return hex_field<Nonce>(*this, key, &Nonce::from_hex);
}

const Json& Fields::object(const char* key) {
  const Json& value = any(key);
  if (!error_ && !value.is_object()) fail(fmt::format("\"{}\" is not an object", key));
  return value;
}

const Json& Fields::array(const char* key, std::size_t count_max) {
  static const Json kEmpty = Json::array();
  const Json& value = any(key);
  if (error_) return kEmpty;
  if (!value.is_array() || value.size() > count_max) {
    fail(fmt::format("\"{}\" is not a list of at most {}", key, count_max));
    return kEmpty;
  }
  return value;
}

Result<> Fields::end() const {
  if (error_) return *error_;
  return Done{};
}

Json to_json(const SaveId& save) {
  return {{"step", save.step}, {"attempt", save.attempt}, {"try", save.try_index}};
}

Result<SaveId> save_id_from_json(const Json& value) {
  Fields f(value, "save");
  const SaveId save{f.u64("step"), f.u32("attempt"), f.u32("try")};
  UNBROKEN_DO(f.end());
  return save;
}

}  // namespace unbroken
