#include "exchange/zip.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "base/utf8.h"
#include "exchange/crc32.h"
#include "exchange/pickle/pickle_globals.h"

namespace unbroken {

namespace {

constexpr std::uint64_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56, kLocalBytes = 30,
                        kEntryBytes = 46;
constexpr std::uint64_t kDirectoryBytesMax = std::uint64_t{128} << 20;
constexpr std::uint32_t kEndMark = 0x06054b50, kLocatorMark = 0x07064b50, kEnd64Mark = 0x06064b50,
                        kEntryMark = 0x02014b50, kLocalMark = 0x04034b50;

Error corrupt(std::string_view why) {
  return Error(Code::corrupt, fmt::format("zip archive: {}", why));
}

/// A little-endian number of `Width` bytes; the caller has checked that it is there.
template <unsigned Width>
std::uint64_t number(std::string_view bytes, std::size_t at) {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < Width; ++i)
    value |= std::uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return value;
}

struct Directory {
  std::uint64_t offset = 0, bytes = 0, records = 0, end = 0;
};

/// The archive ends with its end record, without a comment: what stands behind an end is what another reader
/// would see.
Result<Directory> find_directory(const ByteSource& source) {
  if (source.bytes() < kEndBytes) return corrupt("it is cut short");
  const std::uint64_t at = source.bytes() - kEndBytes;
  UNBROKEN_TRY(const std::string end, read_range(source, at, kEndBytes, kEndBytes));
  if (number<4>(end, 0) != kEndMark || number<2>(end, 20) != 0)
    return corrupt("it does not end as an archive does; it may be cut short");
  if (number<2>(end, 4) != 0 || number<2>(end, 6) != 0 || number<2>(end, 8) != number<2>(end, 10))
    return corrupt("it is one of several parts");
  Directory found{number<4>(end, 16), number<4>(end, 12), number<2>(end, 10), at};
  const bool is_64 = found.offset == 0xffffffff || found.bytes == 0xffffffff || found.records == 0xffff;
  bool has_locator = false;
  if (at >= kLocatorBytes + kEnd64Bytes) {
    const std::uint64_t locator_at = at - kLocatorBytes;
    UNBROKEN_TRY(const std::string locator, read_range(source, locator_at, kLocatorBytes, kLocatorBytes));
    has_locator = number<4>(locator, 0) == kLocatorMark;
    if (has_locator) {
      const std::uint64_t end64_at = number<8>(locator, 8);
      if (end64_at != locator_at - kEnd64Bytes) return corrupt("its 64-bit end is not where it says");
      UNBROKEN_TRY(const std::string end64, read_range(source, end64_at, kEnd64Bytes, kEnd64Bytes));
      if (number<4>(end64, 0) != kEnd64Mark || number<8>(end64, 4) != kEnd64Bytes - 12 ||
          number<4>(end64, 16) != 0 || number<4>(end64, 20) != 0 ||
          number<8>(end64, 24) != number<8>(end64, 32))
        return corrupt("its 64-bit end is damaged");
      const Directory wide{number<8>(end64, 48), number<8>(end64, 40), number<8>(end64, 32), end64_at};
      const auto fits = [](std::uint64_t narrow, std::uint64_t value, std::uint64_t escape) {
        return narrow == value || narrow == escape;
      };
      if (!fits(found.offset, wide.offset, 0xffffffff) || !fits(found.bytes, wide.bytes, 0xffffffff) ||
          !fits(found.records, wide.records, 0xffff))
        return corrupt("its two ends differ");
      found = wide;
    }
  }
  if (is_64 && !has_locator) return corrupt("its 64-bit end is missing");
  if (found.offset > found.end || found.bytes != found.end - found.offset)
    return corrupt("its directory does not lie before its end");
  if (found.records > kZipRecordsMax || found.records > found.bytes / kEntryBytes)
    return corrupt("it counts more records than it holds");
  return found;
}

Result<> check_record_name(std::string_view name) {
  const auto bad = [&] {
    return corrupt(fmt::format("a record has a name that may not be: {}", foreign_text(name)));
  };
  if (name.empty() || name.size() > 1024 || !is_utf8(name) || name.front() == '/' || name.back() == '/')
    return bad();
  for (const char c : name)
    if (static_cast<unsigned char>(c) < 0x20 || c == '\\' || c == ':' || c == 0x7f) return bad();
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view segment = name.substr(begin, end - begin);
    if (segment.empty() || segment == "." || segment == "..") return bad();
    begin = end + 1;
  }
  return Done{};
}

struct Entry {
  std::string name;
  std::uint64_t bytes, local;
  std::uint32_t crc32;
  std::uint16_t flags;
};

/// The values that stand in the 64-bit extra field, in its order, for those that do not fit 32 bits.
Result<> widen(std::string_view extra, std::uint64_t& bytes, std::uint64_t& packed, std::uint64_t& local) {
  std::vector<std::uint64_t*> wanted;
  for (std::uint64_t* value : {&bytes, &packed, &local})
    if (*value == 0xffffffff) wanted.push_back(value);
  bool is_found = false;
  while (!extra.empty()) {
    if (extra.size() < 4 || number<2>(extra, 2) > extra.size() - 4)
      return corrupt("an extra field is cut short");
    const std::string_view body = extra.substr(4, number<2>(extra, 2));
    if (number<2>(extra, 0) == 1) {
      if (is_found) return corrupt("a record has two 64-bit fields");
      is_found = true;
      if (body.size() != wanted.size() * 8) return corrupt("a 64-bit field does not say what is asked of it");
      for (std::size_t i = 0; i < wanted.size(); ++i) *wanted[i] = number<8>(body, i * 8);
    }
    extra.remove_prefix(4 + body.size());
  }
  if (!is_found && !wanted.empty()) return corrupt("a 64-bit field is missing");
  return Done{};
}

Result<std::vector<Entry>> read_entries(std::string_view text, std::uint64_t count) {
  std::vector<Entry> out;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (text.size() < kEntryBytes || number<4>(text, 0) != kEntryMark)
      return corrupt("its directory is damaged");
    const std::uint64_t name_bytes = number<2>(text, 28), extra_bytes = number<2>(text, 30),
                        comment_bytes = number<2>(text, 32);
    if (name_bytes + extra_bytes + comment_bytes > text.size() - kEntryBytes)
      return corrupt("its directory is cut short");
    Entry entry{std::string(text.substr(kEntryBytes, name_bytes)), number<4>(text, 24), number<4>(text, 42),
                static_cast<std::uint32_t>(number<4>(text, 16)),
                static_cast<std::uint16_t>(number<2>(text, 8))};
    UNBROKEN_DO(check_record_name(entry.name));
    if (number<2>(text, 10) != 0)
      return corrupt(fmt::format("record {} is compressed, which torch.save never does", entry.name));
    // Bit 0 and 13: encrypted; 5: patched data. 3 (sizes behind the data) and 11 (UTF-8) are harmless here.
    if ((entry.flags & ~0x0808U) != 0) return corrupt(fmt::format("record {} has unknown flags", entry.name));
    std::uint64_t packed = number<4>(text, 20);
    UNBROKEN_DO(widen(text.substr(kEntryBytes + name_bytes, extra_bytes), entry.bytes, packed, entry.local));
    if (packed != entry.bytes) return corrupt(fmt::format("record {} has two sizes", entry.name));
    out.push_back(std::move(entry));
    text.remove_prefix(kEntryBytes + name_bytes + extra_bytes + comment_bytes);
  }
  if (!text.empty()) return corrupt("its directory counts fewer records than it holds");
  return out;
}

/// Where the data of a record begins, from its local header, which has to agree.
Result<std::uint64_t> data_of(const ByteSource& source, const Entry& entry, std::uint64_t limit) {
  const auto bad = [&](std::string_view why) {
    return corrupt(fmt::format("record {}: {}", entry.name, why));
  };
  if (entry.local > limit || limit - entry.local < kLocalBytes + entry.name.size())
    return bad("lies outside of the archive");
  UNBROKEN_TRY(const std::string head,
               read_range(source, entry.local, kLocalBytes + entry.name.size(), kLocalBytes + 1024));
  if (number<4>(head, 0) != kLocalMark || number<2>(head, 26) != entry.name.size() ||
      std::string_view(head).substr(kLocalBytes) != entry.name)
    return bad("its own header names another one");
  if (number<2>(head, 6) != entry.flags || number<2>(head, 8) != 0) return bad("its own header differs");
  const std::uint64_t crc = number<4>(head, 14), packed = number<4>(head, 18), bytes = number<4>(head, 22);
  const auto agrees = [&](std::uint64_t said, std::uint64_t value) {
    return said == value || said == 0xffffffff || (said == 0 && (entry.flags & 8U) != 0);
  };
  if (!agrees(crc, entry.crc32) || !agrees(packed, entry.bytes) || !agrees(bytes, entry.bytes))
    return bad("its own header gives another size or checksum");
  const std::uint64_t begin = entry.local + head.size() + number<2>(head, 28);
  if (begin > limit || entry.bytes > limit - begin) return bad("lies outside of the archive");
  return begin;
}

}  // namespace

bool looks_like_zip(std::string_view first_4) {
  return first_4.size() >= 4 && number<4>(first_4, 0) == kLocalMark;
}

Result<Zip> read_zip(const ByteSource& source) {
  UNBROKEN_TRY(const Directory directory, find_directory(source));
  UNBROKEN_TRY(const std::string text,
               read_range(source, directory.offset, directory.bytes, kDirectoryBytesMax));
  UNBROKEN_TRY(const std::vector<Entry> entries, read_entries(text, directory.records));
  Zip zip;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const Entry& entry : entries) {
    UNBROKEN_TRY(const std::uint64_t begin, data_of(source, entry, directory.offset));
    ranges.emplace_back(entry.local, begin + entry.bytes);
    zip.has_checksums = zip.has_checksums || entry.crc32 != 0;
    if (!zip.records.try_emplace(entry.name, ZipRecord{begin, entry.bytes, entry.crc32}).second)
      return corrupt(fmt::format("record {} stands twice", entry.name));
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second) return corrupt("two records overlap");
  return zip;
}

Result<std::string> read_record(const ByteSource& source, const Zip& zip, std::string_view name,
                                std::uint64_t bytes_max) {
  const auto it = zip.records.find(name);
  if (it == zip.records.end()) return corrupt(fmt::format("record {} is missing", name));
  UNBROKEN_TRY(std::string bytes, read_range(source, it->second.offset, it->second.bytes, bytes_max));
  Crc32 crc;
  crc.update(as_bytes(bytes));
  if (zip.has_checksums && crc.value() != it->second.crc32)
    return corrupt(fmt::format("record {}: its checksum is {:08x}, the archive says {:08x}", name,
                               crc.value(), it->second.crc32));
  return bytes;
}

}  // namespace unbroken
