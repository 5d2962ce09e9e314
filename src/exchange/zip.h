#pragma once
// The directory of a zip archive as torch.save writes it: every record stored, no encryption, nothing behind
// the end. What two readers could see differently is refused: a record twice, records that overlap, a local
// header that says something else, a name with a path in it that leaves the archive.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "exchange/source.h"

namespace unbroken {

struct ZipRecord {
  std::uint64_t offset = 0, bytes = 0;  ///< of the data, in the archive
  std::uint32_t crc32 = 0;
};

struct Zip {
  std::map<std::string, ZipRecord, std::less<>> records;
  /// False where the writer was told to leave them out: then each is zero.
  bool has_checksums = false;
};

inline constexpr std::uint64_t kZipRecordsMax = std::uint64_t{1} << 20;

/// True where the file begins as a zip archive does.
bool looks_like_zip(std::string_view first_4);
/// Errors: corrupt; unavailable.
Result<Zip> read_zip(const ByteSource& source);
/// The bytes of a small record, with its checksum verified. Errors: corrupt; unavailable.
Result<std::string> read_record(const ByteSource& source, const Zip& zip, std::string_view name,
                                std::uint64_t bytes_max);

}  // namespace unbroken
