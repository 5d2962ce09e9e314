#include "snapshot/window.h"

#include "base/pages.h"
#include "base/point.h"

namespace unbroken {

bool Window::await(std::uint64_t end) {
  const auto is_open = [&] { return is_closed_.load() || end <= given_back_.load() + bytes_; };
  if (!is_open()) {
    UNBROKEN_POINT("save.streaming");
    executor_.join(is_open);
  }
  return !is_closed_.load();
}

bool Window::give_back(std::uint64_t begin, std::uint64_t end) {
  if (!Pages::give_back(image_.subspan(begin, end - begin))) return false;
  given_back_.fetch_add(end - begin);
  executor_.notify();
  return true;
}

void Window::close() {
  is_closed_.store(true);
  executor_.notify();
}

}  // namespace unbroken
