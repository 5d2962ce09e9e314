#include "format/run_object.h"

#include <fmt/format.h>

#include <algorithm>

namespace unbroken {

namespace {

constexpr std::size_t kFlagsMax = 64;

bool are_flags(const std::vector<std::string>& flags) {
  return flags.size() <= kFlagsMax && std::all_of(flags.begin(), flags.end(), is_flag);
}

}  // namespace

std::string uuid_from(std::uint64_t high, std::uint64_t low) {
  high = (high & ~std::uint64_t{0xf000}) | 0x4000;                   // version 4
  low = (low & ~(std::uint64_t{3} << 62)) | std::uint64_t{1} << 63;  // RFC 9562 variant
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32, high >> 16 & 0xffff, high & 0xffff,
                     low >> 48, low & 0xffffffffffff);
}

bool is_uuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
    const char c = text[i];
    const bool is_hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    if (is_dash ? c != '-' : !is_hex) return false;
  }
  return true;
}

Result<std::string> encode_run(const RunObject& run) {
  if (!is_uuid(run.uuid)) return Error(Code::bad_argument, "RUN: the uuid is not one");
  if (!are_flags(run.features.critical) || !are_flags(run.features.optional))
    return Error(Code::bad_argument, "RUN: a feature's name is not one");
  Json out{{"run", run.uuid}, {"optional", run.features.optional}};
  put_features(out, run.features);
  out["format"] = run.format;
  return seal_twice(out);
}

Result<OpenedRun> decode_run(std::string_view text) {
  UNBROKEN_TRY(const Sealed sealed,
               open_sealed_twice(text, {.bytes = kRunBytesMax, .depth = 4, .nodes = 512}));
  UNBROKEN_DO(check_features(sealed.value, "RUN"));
  Fields f(sealed.value, "RUN");
  OpenedRun out;
  out.is_repaired = sealed.is_repaired;
  out.run.format = f.u32("format");
  out.run.uuid = f.text("run", 64);
  const Json& optional = f.array("optional", kFlagsMax);
  UNBROKEN_DO(f.end());
  if (!is_uuid(out.run.uuid)) return Error(Code::corrupt, "RUN: the uuid is not one");
  UNBROKEN_TRY(out.run.features.optional, flags_from(optional, "RUN"));
  return out;
}

Result<RunVerdict> judge_run(const Result<std::string>& text, std::string_view run, bool has_opened) {
  using Kind = RunVerdict::Kind;
  if (text.is(Code::not_found)) {
    if (has_opened) return RunVerdict{Kind::missing, "missing"};
    return RunVerdict{Kind::unwritten, "a first start died before RUN; the next start completes it"};
  }
  if (!text.ok() && !text.is(Code::corrupt)) return text.error();
  const auto opened = text.ok() ? decode_run(text.value()) : Result<OpenedRun>(text.error());
  if (opened.is(Code::unsupported)) return opened.error();
  if (!opened.ok()) return RunVerdict{Kind::damaged, opened.error().what()};
  const std::string& found = opened.value().run.uuid;
  if (found != run)
    return RunVerdict{Kind::foreign, fmt::format("belongs to run {}, the journal to run {}", found, run)};
  if (opened.value().is_repaired) return RunVerdict{Kind::repaired, "repaired from its second copy"};
  return RunVerdict{};
}

}  // namespace unbroken
