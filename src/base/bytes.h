#pragma once
// Views of memory. `Bytes` is borrowed for one call and never stored; `BufferRef` shares ownership and is
// what any asynchronous write takes, so that lifetime is a type and not a comment.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace unbroken {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A shared, immutable slice.
class BufferRef {
 public:
  BufferRef() = default;
  BufferRef(std::shared_ptr<const void> owner, Bytes bytes) : owner_(std::move(owner)), bytes_(bytes) {}
  /// Takes over a string as the bytes.
  static BufferRef of(std::string text) {
    auto owner = std::make_shared<const std::string>(std::move(text));
    const Bytes bytes = as_bytes(*owner);
    return {std::move(owner), bytes};
  }
  Bytes bytes() const noexcept { return bytes_; }
  BufferRef slice(std::size_t offset, std::size_t count) const {
    return {owner_, bytes_.subspan(offset, count)};
  }

 private:
  std::shared_ptr<const void> owner_;
  Bytes bytes_;
};

}  // namespace unbroken
