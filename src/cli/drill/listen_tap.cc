// A command with Unbroken is heard by the tap and the points of the library, and dies by itself where it is
// told to.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>

#include "cli/drill/listen.h"
#include "os/os_clock.h"
#include "os/user/user_file.h"
#include "os/user/work_folder.h"
#include "os/watch/input.h"

namespace unbroken {

namespace {

constexpr Duration kLook = std::chrono::milliseconds(20);  // between two looks at the run's journal
constexpr std::size_t kTapBytesMax = std::size_t{4} << 30;

/// A number of which the tap has the bits, for people.
std::string number_of(const std::string& bits) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(bits.data(), bits.data() + bits.size(), value, 16);
  const bool is_whole = bits.size() == 16 && error == std::errc() && end == bits.data() + bits.size();
  return is_whole ? fmt::format("{}", std::bit_cast<double>(value)) : bits;
}

class TapListener final : public Listener {
 public:
  explicit TapListener(const LifeFiles& files) : files_(files), tap_(files.tap()), points_(files.points()) {}

  std::vector<std::pair<std::string, std::optional<std::string>>> environment(
      const std::optional<Kill>& kill) const override {
    std::vector<std::pair<std::string, std::optional<std::string>>> out{
        {"UNBROKEN_TAP", files_.tap()}, {"UNBROKEN_POINT_LOG", files_.points()}};
    if (!kill || kill->point.empty()) return out;
    const std::string_view how = kill->by == KillBy::kill   ? "kill"
                                 : kill->by == KillBy::term ? "term"
                                                            : "stop";
    out.emplace_back("UNBROKEN_KILL", fmt::format("{}:{}:{}", kill->point, kill->pass, how));
    return out;
  }
  void prepare(ChildOptions&) const override {}
  void wait(const Child&, Duration limit) override { wait_for_input({}, limit); }

  Result<> look(Child&, bool, std::vector<std::string>& points) override {
    for (const std::string& line : tap_.lines()) newest_ = std::max(newest_, step_of_tap_line(line));
    for (std::string& line : points_.lines()) points.push_back(std::move(line));
    return Done{};
  }
  std::uint64_t completed() const override { return newest_; }

  bool has_checkpoint() override {
    const Instant now = clock_.now();
    if (has_checkpoint_ || now < look_again_at_) return has_checkpoint_;
    look_again_at_ = now + kLook;
    has_checkpoint_ = state_of_run(files_.run).newest_step.has_value();
    return has_checkpoint_;
  }
  bool is_killed_by_itself() const override { return true; }

  Result<> finish(LifeEnd& life) override {
    auto text = read_user_file(files_.tap(), kTapBytesMax);
    if (!text.ok()) return Done{};  // it never began
    auto steps = parse_tap(text.value());
    if (!steps.ok()) return std::move(steps).error().with(files_.tap());
    life.steps = std::move(steps).value();
    for (const TapStep& step : life.steps) {
      auto& metrics = life.series[step.step];
      for (const auto& [name, bits] : step.metrics) metrics[name] = number_of(bits);
    }
    return Done{};
  }

 private:
  const LifeFiles files_;
  OsClock clock_;
  FileTail tap_, points_;
  Instant look_again_at_{};
  std::uint64_t newest_ = 0;
  bool has_checkpoint_ = false;
};

}  // namespace

std::unique_ptr<Listener> tap_listener(const LifeFiles& files) {
  return std::make_unique<TapListener>(files);
}

}  // namespace unbroken
