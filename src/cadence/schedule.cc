#include "cadence/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace unbroken {

Result<Schedule> Schedule::every_steps(std::uint64_t steps) {
  if (steps == 0) return Error(Code::bad_argument, "every: 0 steps, it must be at least 1");
  return Schedule(Kind::steps, steps, 0);
}

Result<Schedule> Schedule::every_seconds(double seconds) {
  if (!(seconds > 0) || !std::isfinite(seconds))
    return Error(Code::bad_argument, fmt::format("every: {} s, it must be above 0 and finite", seconds));
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
  if (kind_ == Kind::steps) return step % steps_ == 0;
  return now_s - last_s_ >= interval_s_;
}

void Schedule::on_cost(double exposed_s, double durable_s) {
  if (kind_ != Kind::automatic) return;
  exposed_s_.add(std::max(exposed_s, 0.0));
  durable_s_.add(std::max(durable_s, 0.0));
  // Twice the time to durable leaves the storage half of its time, so that saves never queue up.
  interval_s_ = std::min(std::max(exposed_s_.value() / kShare, 2 * durable_s_.value()), kLongest_s);
}

std::string Schedule::text() const {
  switch (kind_) {
    case Kind::steps:
      return fmt::format("every {} step{}", steps_, steps_ == 1 ? "" : "s");
    case Kind::duration:
      return fmt::format("every {}", format_duration(interval_s_));
    case Kind::automatic:
      break;
  }
  if (exposed_s_.count() == 0) return fmt::format("auto: at least every {}", format_duration(kLongest_s));
  return fmt::format("auto: every {} (a save costs {})", format_duration(interval_s_),
                     format_duration(exposed_s_.value()));
}

}  // namespace unbroken
