#include "journal/hint.h"

#include "base/check.h"
#include "base/json.h"

namespace unbroken {

std::string encode_hint(const Hint& hint) {
  const Json closed = hint.closed ? Json(*hint.closed) : Json();
  auto text =
      seal({{"run", hint.run}, {"slot", hint.slot}, {"record", hint.record.hex()}, {"closed", closed}});
  UNBROKEN_CHECK(text.ok());
  return std::move(text).value();
}

Result<Hint> decode_hint(std::string_view bytes) {
  UNBROKEN_TRY(const Sealed sealed, open_sealed(bytes, {.bytes = kHintBytesRead, .depth = 4, .nodes = 64}));
  Fields f(sealed.value, "hint");
  Hint hint{f.text("run", 64), f.u64("slot"), f.sha256("record"), std::nullopt};
  const Json& closed = f.any("closed");
  if (closed.is_number_unsigned()) hint.closed = closed.get<std::uint64_t>();
  if (!hint.closed && !closed.is_null()) f.fail("\"closed\" is not a slot");
  UNBROKEN_DO(f.end());
  return hint;
}

}  // namespace unbroken
