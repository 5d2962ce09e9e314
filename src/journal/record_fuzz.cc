// What a slot or the hint may hold: anything. The first byte chooses how the rest is used, so that inputs
// also get past the seals: as a file's bytes, or as a text that is sealed here.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "journal/hint.h"
#include "journal/history.h"

namespace unbroken {
namespace {

std::string sealed(std::string_view line) {
  return std::string(line) + "\nsha256:" + sha256(as_bytes(line)).hex() + "\n";
}

void read_record(std::string_view bytes) {
  const auto decoded = decode_record(bytes);
  if (!decoded.ok()) return;
  const Record& record = decoded.value().record;
  (void)History{}.check(record);
  // What is written again reads back, and is written the same way from then on. A record of a later version
  // may be too long to write, or hold members that are not kept.
  const auto once = encode_record(record);
  if (!once.ok()) return;
  const auto again = decode_record(once.value().bytes);
  UNBROKEN_CHECK(again.ok());
  UNBROKEN_CHECK(encode_record(again.value().record).value().bytes == once.value().bytes);
}

}  // namespace
}  // namespace unbroken

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t count) {
  using namespace unbroken;
  const std::string_view text(reinterpret_cast<const char*>(data), count);
  const std::string one = sealed(text.substr(0, text.find('\n')));
  read_record(text);
  read_record(one + one);
  for (const std::string_view candidate : {text, std::string_view(one)})
    if (const auto hint = decode_hint(candidate); hint.ok())
      UNBROKEN_CHECK(encode_hint(decode_hint(encode_hint(hint.value())).value()) ==
                     encode_hint(hint.value()));
  return 0;
}
