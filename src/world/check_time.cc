#include "world/check_time.h"

namespace unbroken {

Result<> check_time(Instant now, const Deadline& by) {
  if (by.stop.stop_requested()) return Error(Code::stopped, "stopped by the caller");
  if (now >= by.at) return Error(Code::late, "the deadline has passed");
  return Done{};
}

}  // namespace unbroken
