#include "engine/seams.h"

#include <fmt/format.h>

#include "world/check_time.h"

namespace unbroken {

Result<> Seams::check_piece(std::string_view doing, std::string_view key, const Deadline& by) const {
  auto in_time = check_time(clock.now(), by);
  return in_time.ok() ? in_time : std::move(in_time).error().with(fmt::format("{} {}", doing, key));
}

}  // namespace unbroken
