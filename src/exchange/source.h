#pragma once
// Bytes of a foreign file that can be read anywhere: the file itself, or a part of it that is a file of its
// own.
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace unbroken {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::uint64_t bytes() const = 0;
  /// Fills `into`. Errors: corrupt where the file ends before; unavailable.
  virtual Result<> read(std::uint64_t offset, MutableBytes into) const = 0;
};

/// A part of another source, which has to outlive it.
class PartOfSource final : public ByteSource {
 public:
  /// The range has to lie within `whole`.
  PartOfSource(const ByteSource& whole, std::uint64_t offset, std::uint64_t bytes)
      : whole_(whole), offset_(offset), bytes_(bytes) {}
  std::uint64_t bytes() const override { return bytes_; }
  Result<> read(std::uint64_t offset, MutableBytes into) const override {
    if (offset > bytes_ || into.size() > bytes_ - offset)
      return Error(Code::corrupt, "the file ends before what it says is there");
    return whole_.read(offset_ + offset, into);
  }

 private:
  const ByteSource& whole_;
  std::uint64_t offset_, bytes_;
};

/// Bytes in memory, which have to outlive it.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(Bytes all) : all_(all) {}
  std::uint64_t bytes() const override { return all_.size(); }
  Result<> read(std::uint64_t offset, MutableBytes into) const override;

 private:
  Bytes all_;
};

/// `count` bytes from `offset`. The range is checked before anything is allocated. Errors: as read(), and
/// corrupt above `bytes_max`.
Result<std::string> read_range(const ByteSource& source, std::uint64_t offset, std::uint64_t count,
                               std::uint64_t bytes_max);

}  // namespace unbroken
