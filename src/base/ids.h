#pragma once
// Names of things: a save is (step, attempt, try); a nonce tells writers apart.
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace unbroken {

/// A save. Printed `1200.a3`, and `1200.a3.t1` after a retry.
struct SaveId {
  std::uint64_t step = 0;       ///< completed steps
  std::uint32_t attempt = 0;    ///< the life of the run that made it, from 1
  std::uint32_t try_index = 0;  ///< 0 unless this step was aborted and saved again in the same attempt
  friend auto operator<=>(const SaveId&, const SaveId&) = default;
  std::string name() const;
  /// Accepts exactly what name() prints.
  static Result<SaveId> from_name(std::string_view text);
  /// Folder below data/: "step-000000001200.a0003.t0".
  std::string folder() const;
  static Result<SaveId> from_folder(std::string_view text);
};

/// 64 random bits, printed as 16 hex digits.
struct Nonce {
  std::uint64_t value = 0;
  friend auto operator<=>(const Nonce&, const Nonce&) = default;
  std::string hex() const;
  static Result<Nonce> from_hex(std::string_view text);
};

}  // namespace unbroken
