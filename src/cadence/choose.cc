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

namespace {

/// Work between two saves when they follow each other as closely as they can.
double shortest_work_s(const Choice& in) {
  const double floor_s = std::max(in.floor_s, in.slow_s);
  if (!(in.step_s > 0)) return floor_s;
  return in.step_s * std::max(std::ceil(floor_s / in.step_s * (1 - 1e-9)), 1.0);
}

}  // namespace

Result<Chosen> choose_interval(const Choice& in) {
  Chosen out{in.exact_s, BoundBy::optimum};
  if (!std::isfinite(in.exact_s)) out = {in.quiet_s, BoundBy::no_failures};
  if (out.interval_s < in.min_s) out = {in.min_s, BoundBy::every_min};
  if (out.interval_s > in.max_s) out = {in.max_s, BoundBy::every_max};
  if (out.interval_s < in.floor_s) out = {in.floor_s, BoundBy::floor};

  const double left = in.rpo_s - in.stall_s - in.persist_s - in.slowed_s;
  if (!std::isfinite(left)) return out;
  const double shortest = shortest_work_s(in);
  if (left <= 0 || left < shortest * (1 - 1e-9))
    return Error(
        Code::bad_argument,
        fmt::format("rpo: {} cannot be kept: with a stall of {}, {} until a save is durable{} and {} between "
                    "saves at least ({}) up to {} can be lost",
                    format_duration(in.rpo_s), format_duration(in.stall_s), format_duration(in.persist_s),
                    in.slowed_s > 0
                        ? fmt::format(", {} by which it slows the work", format_duration(in.slowed_s))
                        : "",
                    format_duration(shortest),
                    shortest > std::max(in.floor_s, in.slow_s) ? "whole steps" : "the floor",
                    format_duration(shortest + in.stall_s + in.persist_s + in.slowed_s)));
  const double cap = std::max({left - in.step_s, in.floor_s, std::min(in.step_s, left)});
  if (out.interval_s > cap) out = {cap, BoundBy::rpo};
  // Without failures a promise is the only reason to save at all, however rarely it asks for it.
  if (out.bound_by == BoundBy::no_failures) out = {cap, BoundBy::rpo};
  return out;
}

}  // namespace unbroken
