// Any manifest, sealed or not, as if COMMIT named just this text.
#include "base/check.h"
#include "format/fuzz_seal.h"
#include "format/manifest.h"

using namespace unbroken;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const std::string& text : as_it_is_and_sealed(data, size)) {
    const Sha256 name = sha256(as_bytes(std::string_view(text).substr(0, text.find('\n'))));
    const auto manifest = decode_manifest(text, name);
    if (!manifest.ok()) {
      UNBROKEN_CHECK(manifest.is(Code::corrupt) || manifest.is(Code::unsupported));
      continue;
    }
    const SealedManifest again = encode_manifest(manifest.value()).value();
    UNBROKEN_CHECK(decode_manifest(again.text, again.sha256).ok());
  }
  return 0;
}
