#include "format/members.h"

namespace unbroken {

namespace {

/// Passes on what is wrong in a nested object.
void take_over(Fields& outer, const Fields& inner) {
  if (const auto end = inner.end(); !end.ok()) outer.fail(end.error().what());
}

}  // namespace

Json member_of(const std::optional<SaveId>& save) {
  return save ? Json(save->name()) : Json();
}

Json member_of(const OpenRef& open) {
  return {{"slot", open.slot}, {"sha256", open.sha256.hex()}};
}

Json member_of(const ContentRef& content) {
  return {{"bytes", content.bytes}, {"xxh128", content.digest.hex()}};
}

SaveId save_member(Fields& fields, const char* key) {
  const std::string text = fields.text(key, 64);
  if (!fields.end().ok()) return {};
  const auto save = SaveId::from_name(text);
  if (!save.ok()) {
    fields.fail(save.error().what());
    return {};
  }
  return save.value();
}

std::optional<SaveId> optional_save_member(Fields& fields, const char* key) {
  if (fields.any(key).is_null()) return std::nullopt;
  return save_member(fields, key);
}

OpenRef open_member(Fields& fields, const char* key) {
  Fields f(fields.object(key), key);
  const OpenRef open{f.u64("slot"), f.sha256("sha256")};
  take_over(fields, f);
  return open;
}

ContentRef content_member(Fields& fields, const char* key) {
  Fields f(fields.object(key), key);
  const ContentRef content{f.u64("bytes", INT64_MAX), f.xxh128("xxh128")};
  take_over(fields, f);
  return content;
}

}  // namespace unbroken
