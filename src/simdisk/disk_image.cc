#include "simdisk/disk_image.h"

#include <fmt/format.h>

#include <cstdint>

namespace unbroken {

Xxh128 DiskImage::hash() const {
  XxhStream stream;
  const auto add_number = [&](std::uint64_t x) {
    stream.update({reinterpret_cast<const std::byte*>(&x), sizeof x});
  };
  std::map<std::size_t, std::size_t> order;  // file index -> place of its first name
  for (const auto& [path, file] : names) {
    add_number(path.size());
    stream.update(as_bytes(path));
    if (!file) {
      add_number(UINT64_MAX);
      continue;
    }
    const auto [at, is_new] = order.emplace(*file, order.size());
    add_number(at->second);
    if (is_new) {
      add_number(files[*file]->size());
      stream.update(as_bytes(*files[*file]));
    }
  }
  return stream.digest();
}

const std::string* DiskImage::file(std::string_view path) const {
  const auto at = names.find(path);
  return at == names.end() || !at->second ? nullptr : files[*at->second].get();
}

std::string DiskImage::describe() const {
  std::string text;
  for (const auto& [path, file] : names) {
    if (file) {
      text += fmt::format("{} #{} {} bytes {}\n", path, *file, files[*file]->size(),
                          xxh128(as_bytes(*files[*file])).hex().substr(0, 8));
    } else {
      text += fmt::format("{}/\n", path);
    }
  }
  return text;
}

}  // namespace unbroken
