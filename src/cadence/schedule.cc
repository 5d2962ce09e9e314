#include "cadence/schedule.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"

namespace unbroken {

Result<Schedule> Schedule::every_steps(std::uint64_t steps) {
  if (steps == 0) return Error(Code::bad_argument, "every: 0 steps, it must be at least 1");
  return Schedule(Kind::steps, steps, 0);
}

Result<Schedule> Schedule::every_seconds(double seconds) {
  if (!(seconds >= 1e-9) || !std::isfinite(seconds))
    return Error(Code::bad_argument,
                 fmt::format("every: {} s, it must be a nanosecond at least, and finite", seconds));
  return Schedule(Kind::duration, 0, seconds);
}

Result<Schedule> Schedule::parse(std::string_view text) {
  if (text == "auto") return automatic();
  if (const auto steps = parse_u64(text); steps.ok()) return every_steps(steps.value());
  const auto seconds = parse_duration_s(text, "every");
  if (!seconds.ok())
    return Error(
        Code::bad_argument,
        fmt::format("every: \"{}\" is neither \"auto\" nor a number of steps such as 50 nor a duration such "
                    "as 10min",
                    text));
  return every_seconds(seconds.value());
}

bool Schedule::is_due(std::uint64_t step, double now_s) const {
  switch (kind_) {
    case Kind::steps:
      return step % steps_ == 0;
    case Kind::duration:
      return now_s - last_s_ >= interval_s_;
    case Kind::automatic:
      break;
  }
  return false;
}

}  // namespace unbroken
