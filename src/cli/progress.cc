#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>

#include "base/text.h"

namespace unbroken {

struct Progress::Shared {
  std::string doing;
  std::uint64_t total;
  std::function<std::uint64_t()> done;
  Clock& clock;
  Executor& executor;
  const Instant began;
  const bool is_terminal;
  std::mutex mutex;  // a tick against the end
  bool is_over = false, has_bar = false;

  void show() {
    const std::string text = progress_text(std::min(done(), total), total, seconds_of(clock.now() - began));
    fmt::print(stderr, "{}{} {}{}", is_terminal ? "\r" : "", doing, text, is_terminal ? "\x1b[K" : "\n");
    std::fflush(stderr);
    has_bar = is_terminal;
  }

  static void tick_later(const std::shared_ptr<Shared>& shared) {
    const Duration period = shared->is_terminal ? std::chrono::milliseconds(200) : std::chrono::seconds(10);
    shared->executor.post_at(shared->clock.now() + period, [shared] {
      const std::lock_guard lock(shared->mutex);
      if (shared->is_over) return;
      shared->show();
      tick_later(shared);
    });
  }
};

Progress::Progress(std::string doing, std::uint64_t total, std::function<std::uint64_t()> done, Clock& clock,
                   Executor& executor)
    : shared_(new Shared{.doing = std::move(doing),
                         .total = std::max<std::uint64_t>(total, 1),
                         .done = std::move(done),
                         .clock = clock,
                         .executor = executor,
                         .began = clock.now(),
                         .is_terminal = ::isatty(STDERR_FILENO) == 1,
                         .mutex = {}}) {
  Shared::tick_later(shared_);
}

Progress::~Progress() {
  const std::lock_guard lock(shared_->mutex);
  shared_->is_over = true;
  if (shared_->has_bar) fmt::print(stderr, "\r\x1b[K");
}

std::string progress_text(std::uint64_t done, std::uint64_t total, double elapsed_s) {
  constexpr std::size_t kWidth = 24;
  const double share = static_cast<double>(done) / static_cast<double>(total);
  const auto filled = static_cast<std::size_t>(share * kWidth);
  const double rate = elapsed_s > 0 ? static_cast<double>(done) / elapsed_s : 0;
  const std::string left =
      rate > 0 ? format_duration(static_cast<double>(total - done) / rate) + " left" : "just begun";
  return fmt::format("[{:=<{}}{:<{}}] {:3.0f} %  {} of {}  {}/s  {}", "", filled, "", kWidth - filled,
                     share * 100, format_bytes(done), format_bytes(total),
                     format_bytes(static_cast<std::uint64_t>(rate)), left);
}

}  // namespace unbroken
