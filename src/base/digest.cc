#include "base/digest.h"

#include <openssl/evp.h>
#include <xxhash.h>
#ifdef UNBROKEN_XXH_DISPATCH
#include <xxh_x86dispatch.h>  // its names stand for those of xxhash.h from here on
#endif

#include <array>
#include <cstring>

#include "base/check.h"

namespace unbroken {

namespace {

/// The first long hash chooses the vectors of this processor, by plain writes: before there are threads.
[[maybe_unused]] const bool kAreVectorsChosen = [] {
  constexpr std::array<std::byte, 1024> kAny{};
  return XXH3_128bits(kAny.data(), kAny.size()).low64 != 0;
}();

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string to_hex(Bytes bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const std::byte b : bytes) {
    out.push_back(kDigits[std::to_integer<unsigned>(b) >> 4]);
    out.push_back(kDigits[std::to_integer<unsigned>(b) & 15]);
  }
  return out;
}

Result<std::string> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) return Error(Code::bad_argument, "odd number of hex digits");
  std::string out;
  out.reserve(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = hex_value(text[i]);
    const int low = hex_value(text[i + 1]);
    if (high < 0 || low < 0) return Error(Code::bad_argument, "not a lower-case hex digit");
    out.push_back(static_cast<char>(high * 16 + low));
  }
  return out;
}

void Xxh128::store(std::byte* out) const {
  XXH128_canonical_t canonical;
  XXH128_hash_t hash;
  hash.high64 = high;
  hash.low64 = low;
  XXH128_canonicalFromHash(&canonical, hash);
  std::memcpy(out, canonical.digest, kBytes);
}

Xxh128 Xxh128::load(const std::byte* in) {
  XXH128_canonical_t canonical;
  std::memcpy(canonical.digest, in, kBytes);
  const XXH128_hash_t hash = XXH128_hashFromCanonical(&canonical);
  return {hash.high64, hash.low64};
}

std::string Xxh128::hex() const {
  std::array<std::byte, kBytes> out;
  store(out.data());
  return to_hex(out);
}

Result<Xxh128> Xxh128::from_hex(std::string_view text) {
  if (text.size() != 2 * kBytes) return Error(Code::bad_argument, "a digest has 32 hex digits");
  UNBROKEN_TRY(const std::string raw, unbroken::from_hex(text));
  return load(as_bytes(raw).data());
}

Xxh128 xxh128(Bytes bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

struct XxhStream::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

XxhStream::XxhStream() : state_(std::make_unique<State>()) {
  UNBROKEN_CHECK(state_->xxh != nullptr);
  reset();
}
XxhStream::~XxhStream() = default;
XxhStream::XxhStream(XxhStream&&) noexcept = default;
XxhStream& XxhStream::operator=(XxhStream&&) noexcept = default;
void XxhStream::update(Bytes bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}
Xxh128 XxhStream::digest() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return {hash.high64, hash.low64};
}
void XxhStream::reset() {
  XXH3_128bits_reset(state_->xxh);
}

std::string Sha256::hex() const {
  return to_hex(bytes);
}

Result<Sha256> Sha256::from_hex(std::string_view text) {
  Sha256 out;
  if (text.size() != 2 * out.bytes.size()) return Error(Code::bad_argument, "a SHA-256 has 64 hex digits");
  UNBROKEN_TRY(const std::string raw, unbroken::from_hex(text));
  std::memcpy(out.bytes.data(), raw.data(), raw.size());
  return out;
}

Sha256 sha256(Bytes bytes) {
  Sha256 out;
  unsigned size = 0;
  const int ok = EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(out.bytes.data()),
                            &size, EVP_sha256(), nullptr);
  UNBROKEN_CHECK(ok == 1 && size == out.bytes.size());
  return out;
}

}  // namespace unbroken
