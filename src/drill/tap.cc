#include "drill/tap.h"

#include <fmt/format.h>

#include "base/digest.h"
#include "base/json.h"
#include "base/text.h"

namespace unbroken {

namespace {

// Longer values are compared by digest, so that a long run fits in memory.
constexpr std::size_t kShortValue = 64;

std::map<std::string, std::string> texts_of(Fields& fields, const char* key) {
  std::map<std::string, std::string> out;
  const Json& object = fields.object(key);
  if (!object.is_object()) return out;
  for (const auto& [name, value] : object.items()) {
    if (!value.is_string()) {
      fields.fail(fmt::format("\"{}\": \"{}\" is not a text", key, name));
      break;
    }
    const auto& text = value.get_ref<const std::string&>();
    out[name] = text.size() <= kShortValue ? text : xxh128(as_bytes(text)).hex();
  }
  return out;
}

}  // namespace

Result<TapStep> parse_tap_line(std::string_view line) {
  UNBROKEN_TRY(const Json json, parse_json(line, {.bytes = std::size_t{1} << 30}));
  Fields f(json, "tap");
  TapStep out;
  out.step = f.u64("step");
  out.tensors = texts_of(f, "tensors");
  out.values = texts_of(f, "values");
  out.metrics = texts_of(f, "metrics");
  if (f.has("not_attached")) out.not_attached = texts_of(f, "not_attached");
  UNBROKEN_DO(f.end());
  return out;
}

Result<std::vector<TapStep>> parse_tap(std::string_view text) {
  std::vector<TapStep> out;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    UNBROKEN_TRY(out.emplace_back(), parse_tap_line(text.substr(0, end)));
    text.remove_prefix(end + 1);
  }
  return out;
}

std::uint64_t step_of_tap_line(std::string_view line) {
  // In a canonical line this stands nowhere else: within texts the quotes have a backslash, and a metric is a
  // text.
  constexpr std::string_view kKey = ",\"step\":";
  for (std::size_t at = line.find(kKey); at != std::string_view::npos; at = line.find(kKey, at + 1)) {
    const std::string_view rest = line.substr(at + kKey.size());
    const auto step = parse_u64(rest.substr(0, rest.find_first_not_of("0123456789")));
    if (step.ok()) return step.value();
  }
  return 0;
}

}  // namespace unbroken
