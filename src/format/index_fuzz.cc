// Any index, sealed or not: one that is accepted encodes to what was read, but for members of later versions.
#include "base/check.h"
#include "format/fuzz_seal.h"
#include "format/index.h"

using namespace unbroken;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const std::string& text : as_it_is_and_sealed(data, size)) {
    const auto index = decode_index(text);
    if (!index.ok()) {
      UNBROKEN_CHECK(index.is(Code::corrupt) || index.is(Code::unsupported));
      continue;
    }
    const std::string again = encode_index(index.value()).value();
    UNBROKEN_CHECK(decode_index(again).value() == index.value());
    for (const IndexedTensor& tensor : index.value().tensors)
      UNBROKEN_CHECK(tensor.offset + tensor.bytes <= index.value().file_bytes);
  }
  return 0;
}
