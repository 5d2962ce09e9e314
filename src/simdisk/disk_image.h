#pragma once
// What is on a disk after power came back: a tree of names, files and their bytes. Two images with one hash
// hold the same names, the same bytes and the same hard links.
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"

namespace unbroken {

struct DiskImage {
  /// Bytes of each file, shared between images.
  std::vector<std::shared_ptr<const std::string>> files;
  /// Path -> index into `files`, or nothing for a directory. Parents come before what they hold.
  std::map<std::string, std::optional<std::size_t>, std::less<>> names;

  Xxh128 hash() const;
  /// Bytes of the file at `path`; null where there is none.
  const std::string* file(std::string_view path) const;
  /// One line a name, for messages.
  std::string describe() const;
};

}  // namespace unbroken
