// Any receipt, sealed or not.
#include "base/check.h"
#include "format/fuzz_seal.h"
#include "format/receipt.h"

using namespace unbroken;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const std::string& text : as_it_is_and_sealed(data, size)) {
    const auto receipt = decode_receipt(text);
    if (!receipt.ok()) {
      UNBROKEN_CHECK(receipt.is(Code::corrupt) || receipt.is(Code::unsupported));
      continue;
    }
    const auto again = encode_receipt(receipt.value());
    UNBROKEN_CHECK(again.ok() && decode_receipt(again.value()).value() == receipt.value());
  }
  return 0;
}
