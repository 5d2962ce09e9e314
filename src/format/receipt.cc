#include "format/receipt.h"

#include <fmt/format.h>

#include "format/features.h"
#include "format/members.h"

namespace unbroken {

ContentRef content_ref(std::string_view bytes) {
  return {bytes.size(), xxh128(as_bytes(bytes))};
}

Result<std::string> encode_receipt(const Receipt& receipt) {
  Json out{{"save", receipt.save.name()},        {"resume", member_of(receipt.resume)},
           {"writer", receipt.writer},           {"nonce", receipt.nonce.hex()},
           {"life", receipt.life.hex()},         {"open", member_of(receipt.open)},
           {"shard_bytes", receipt.shard_bytes}, {"index", member_of(receipt.index)},
           {"sums", member_of(receipt.sums)}};
  out["format"] = kFormat;
  UNBROKEN_TRY(std::string text, seal(out));
  if (text.size() > kReceiptBytesMax)
    return Error(Code::bad_argument,
                 fmt::format("the receipt of {} would have {} bytes, at most {} are written",
                             receipt.save.name(), text.size(), kReceiptBytesMax));
  return text;
}

Result<Receipt> decode_receipt(std::string_view text) {
  UNBROKEN_TRY(const Sealed sealed, open_sealed(text, {.bytes = kReceiptBytesMax, .depth = 4, .nodes = 64}));
  UNBROKEN_DO(check_format(sealed.value, "receipt"));
  Fields f(sealed.value, "receipt");
  Receipt out;
  out.save = save_member(f, "save");
  out.resume = optional_save_member(f, "resume");
  out.writer = f.u32("writer");
  out.nonce = f.nonce("nonce");
  out.life = f.nonce("life");
  out.open = open_member(f, "open");
  out.shard_bytes = f.u64("shard_bytes", INT64_MAX);
  out.index = content_member(f, "index");
  out.sums = content_member(f, "sums");
  UNBROKEN_DO(f.end());
  return out;
}

}  // namespace unbroken
