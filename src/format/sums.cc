#include "format/sums.h"

#include <fmt/format.h>

namespace unbroken {

std::string encode_sums(std::span<const Xxh128> chunks) {
  std::string out(chunks.size() * Xxh128::kBytes, '\0');
  auto* at = reinterpret_cast<std::byte*>(out.data());
  for (const Xxh128& chunk : chunks) {
    chunk.store(at);
    at += Xxh128::kBytes;
  }
  return out;
}

Result<std::vector<Xxh128>> decode_sums(std::string_view bytes, std::uint64_t count) {
  if (bytes.size() % Xxh128::kBytes != 0 || bytes.size() / Xxh128::kBytes != count)
    return Error(Code::corrupt, fmt::format("{} bytes of sums for {} chunks", bytes.size(), count));
  std::vector<Xxh128> chunks;
  chunks.reserve(bytes.size() / Xxh128::kBytes);
  for (std::size_t i = 0; i < bytes.size(); i += Xxh128::kBytes)
    chunks.push_back(Xxh128::load(as_bytes(bytes.substr(i)).data()));
  return chunks;
}

}  // namespace unbroken
