#pragma once
// A fuzzer never finds a SHA-256, so what it tries is also sealed for it, after canonical JSON was made of it
// where it is JSON at all.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace unbroken {

inline std::vector<std::string> as_it_is_and_sealed(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> out{text};
  std::string line = text.substr(0, text.find('\n'));
  if (const auto value = parse_json(line, {.depth = 250}); value.ok())
    line = canonical_json(value.value()).value();
  add_seal(line);
  out.push_back(std::move(line));
  return out;
}

}  // namespace unbroken
