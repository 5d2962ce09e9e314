#include "base/ids.h"

#include <fmt/format.h>

#include "base/digest.h"
#include "base/text.h"

namespace unbroken {

std::string SaveId::name() const {
  return try_index == 0 ? fmt::format("{}.a{}", step, attempt)
                        : fmt::format("{}.a{}.t{}", step, attempt, try_index);
}

Result<SaveId> SaveId::from_name(std::string_view text) {
  const auto bad = [&] {
    return Error(Code::bad_argument, fmt::format("\"{}\" is not a checkpoint name such as 1200.a3", text));
  };
  const auto parts = split(text, '.');
  if (parts.size() < 2 || parts.size() > 3 || !parts[1].starts_with('a')) return bad();
  const auto step = parse_u64(parts[0]);
  const auto attempt = parse_u64(parts[1].substr(1), UINT32_MAX);
  if (!step.ok() || !attempt.ok()) return bad();
  SaveId id{step.value(), static_cast<std::uint32_t>(attempt.value()), 0};
  if (parts.size() == 3) {
    if (!parts[2].starts_with('t')) return bad();
    const auto try_index = parse_u64(parts[2].substr(1), UINT32_MAX);
    if (!try_index.ok()) return bad();
    id.try_index = static_cast<std::uint32_t>(try_index.value());
  }
  if (id.name() != text) return bad();  // one name for one save
  return id;
}

std::string SaveId::folder() const {
  return fmt::format("step-{:012}.a{:04}.t{}", step, attempt, try_index);
}

Result<SaveId> SaveId::from_folder(std::string_view text) {
  const auto bad = [&] {
    return Error(Code::bad_argument, fmt::format("\"{}\" is not a save's folder", text));
  };
  const auto parts = split(text, '.');
  if (parts.size() != 3 || !parts[0].starts_with("step-") || !parts[1].starts_with('a') ||
      !parts[2].starts_with('t'))
    return bad();
  const auto step = parse_u64(trim_zeros(parts[0].substr(5)));
  const auto attempt = parse_u64(trim_zeros(parts[1].substr(1)), UINT32_MAX);
  const auto try_index = parse_u64(parts[2].substr(1), UINT32_MAX);
  if (!step.ok() || !attempt.ok() || !try_index.ok()) return bad();
  const SaveId id{step.value(), static_cast<std::uint32_t>(attempt.value()),
                  static_cast<std::uint32_t>(try_index.value())};
  if (id.folder() != text) return bad();
  return id;
}

std::string Nonce::hex() const {
  return fmt::format("{:016x}", value);
}

Result<Nonce> Nonce::from_hex(std::string_view text) {
  if (text.size() != 16) return Error(Code::bad_argument, "a nonce has 16 hex digits");
  UNBROKEN_TRY(const std::string raw, unbroken::from_hex(text));
  Nonce nonce;
  for (const char c : raw) nonce.value = nonce.value << 8 | static_cast<unsigned char>(c);
  return nonce;
}

}  // namespace unbroken
