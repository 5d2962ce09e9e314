#include "os/watch/input.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace unbroken {

void wait_for_input(std::initializer_list<int> files, Duration limit) {
  std::vector<pollfd> all;
  for (const int number : files) all.push_back({.fd = number, .events = POLLIN, .revents = 0});
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(std::max(limit, Duration{})).count();
  ::poll(all.data(), all.size(), static_cast<int>(std::min<decltype(ms)>(ms, 60'000)));
}

}  // namespace unbroken
