#include "cadence/choose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace unbroken {

std::string_view name_of(BoundBy bound) noexcept {
  switch (bound) {
    case BoundBy::optimum:
      return "optimum";
    case BoundBy::floor:
      return "floor";
    case BoundBy::rpo:
      return "rpo";
    case BoundBy::given:
      return "given";
    case BoundBy::no_failures:
      return "no-failures";
    case BoundBy::every_min:
      return "every_min";
    case BoundBy::every_max:
      return "every_max";
  }
  return "unknown";
}

std::optional<BoundBy> bound_from(std::string_view name) noexcept {
  for (int i = 0; i <= static_cast<int>(BoundBy::every_max); ++i)
    if (const auto bound = static_cast<BoundBy>(i); name_of(bound) == name) return bound;
  return std::nullopt;
}

Result<Chosen> choose_interval(const Choice& in) {
  Chosen out{in.exact_s, BoundBy::optimum};
  if (!std::isfinite(in.exact_s)) out = {in.quiet_s, BoundBy::no_failures};
  if (out.interval_s < in.min_s) out = {in.min_s, BoundBy::every_min};
  if (out.interval_s > in.max_s) out = {in.max_s, BoundBy::every_max};
  if (out.interval_s < in.floor_s) out = {in.floor_s, BoundBy::floor};

  const double cap = in.rpo_s - in.stall_s - in.persist_s;
  if (!std::isfinite(cap)) return out;
  if (cap <= 0 || cap < in.floor_s * (1 - 1e-9))
    return Error(
        Code::bad_argument,
        fmt::format("rpo: {} cannot be kept: with a stall of {}, {} until a save is durable and an interval "
                    "of at least {} (the floor) up to {} can be lost",
                    format_duration(in.rpo_s), format_duration(in.stall_s), format_duration(in.persist_s),
                    format_duration(in.floor_s), format_duration(in.floor_s + in.stall_s + in.persist_s)));
  if (out.interval_s > cap) out = {cap, BoundBy::rpo};
  // Without failures a promise is the only reason to save at all, however rarely it asks for it.
  if (out.bound_by == BoundBy::no_failures) out = {cap, BoundBy::rpo};
  return out;
}

}  // namespace unbroken
