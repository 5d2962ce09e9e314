#include "exchange/source.h"

#include <fmt/format.h>

#include <cstring>

namespace unbroken {

Result<> MemorySource::read(std::uint64_t offset, MutableBytes into) const {
  if (offset > all_.size() || into.size() > all_.size() - offset)
    return Error(Code::corrupt, "the file ends before what it says is there");
  if (!into.empty()) std::memcpy(into.data(), all_.data() + offset, into.size());
  return Done{};
}

Result<std::string> read_range(const ByteSource& source, std::uint64_t offset, std::uint64_t count,
                               std::uint64_t bytes_max) {
  if (offset > source.bytes() || count > source.bytes() - offset)
    return Error(Code::corrupt,
                 fmt::format("{} bytes at {} are not in a file of {}", count, offset, source.bytes()));
  if (count > bytes_max)
    return Error(Code::corrupt, fmt::format("{} bytes at {}: at most {} are read", count, offset, bytes_max));
  std::string out(count, '\0');
  UNBROKEN_DO(source.read(offset, {reinterpret_cast<std::byte*>(out.data()), out.size()}));
  return out;
}

}  // namespace unbroken
