// What an object in fold/ may hold: anything. As a file's bytes, and as a text that is sealed here, so that
// inputs also get past the seal.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "journal/fold/fold.h"
#include "journal/retention.h"

namespace unbroken {
namespace {

void read_fold(std::string_view bytes) {
  const auto decoded = decode_fold_text(bytes);
  if (!decoded.ok()) return;
  // What a start, a command and a collector ask of it.
  const History& history = decoded.value();
  (void)history.newest();
  (void)history.protected_resume();
  (void)next_victim(history);
  for (const Standing& standing : standings(history)) (void)history.is_dead(standing.checkpoint->commit.save);
  // Written again it reads back, and is written the same way from then on.
  const auto once = encode_fold(history);
  if (!once.ok()) return;
  const auto again = decode_fold_text(once.value().bytes);
  UNBROKEN_CHECK(again.ok());
  UNBROKEN_CHECK(encode_fold(again.value()).value().bytes == once.value().bytes);
}

}  // namespace
}  // namespace unbroken

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t count) {
  using namespace unbroken;
  const std::string_view text(reinterpret_cast<const char*>(data), count);
  read_fold(text);
  std::string line(text.substr(0, text.find('\n')));
  add_seal(line);
  read_fold(line);
  return 0;
}
