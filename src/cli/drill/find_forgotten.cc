#include "cli/drill/find_forgotten.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>

#include "base/json.h"
#include "cli/drill/drill_life.h"
#include "cli/drill/listen.h"
#include "drill/forgotten.h"
#include "os/user/user_file.h"
#include "os/user/work_folder.h"

namespace unbroken {

namespace {

constexpr std::size_t kRecordBytesMax = std::size_t{1} << 30;

std::uint64_t steps_until(const Series& series, std::uint64_t step) {
  return static_cast<std::uint64_t>(std::distance(series.begin(), series.upper_bound(step)));
}

class Search {
 public:
  Search(const DrillOptions& options, const DrillResult& result) : options_(options), result_(result) {}

  Result<std::vector<std::string>> run() {
    const Life* life = resumed_life();
    if (life == nullptr) return std::vector<std::string>();
    options_.tell("looking for what was forgotten: once more from where a life resumed");
    folder_ = options_.folder + "/search";
    UNBROKEN_DO(make_folder(folder_));
    const std::uint64_t began = steps_until(result_.straight, life->began.value_or(0));
    // How far the losses were right, and one more.
    const std::uint64_t steps =
        std::max<std::uint64_t>(2, steps_until(life->series, result_.difference->step));
    UNBROKEN_DO(live_until(began + 1, "killed", 1));
    UNBROKEN_TRY(const LifeEnd resumed, live_until(steps, "killed", 2));
    if (resumed.series.empty()) return std::vector<std::string>();
    const std::uint64_t first = steps_until(result_.straight, resumed.series.begin()->first);
    if (first < 2) return std::vector<std::string>();  // nothing was resumed
    UNBROKEN_DO(live_until(first + steps, "straight", 1));
    UNBROKEN_TRY(const auto again, record_of("killed", 2));
    UNBROKEN_TRY(const auto straight, record_of("straight", 1));
    // Where each step is told of, the records are numbered like them.
    const std::uint64_t told = std::min<std::uint64_t>(first + steps, result_.straight.size());
    const bool is_each_told = straight.size() + 1 >= told && straight.size() <= told + 1;
    const std::size_t begins = is_each_told ? first - 1 : likeliest_begin(straight, again);
    auto names = forgotten(straight, again, begins);
    if (!may_follow_from_generators(names)) return names;
    options_.tell("once more, with the generators put right");
    UNBROKEN_DO(live_until(began + 1, "mended", 1));
    UNBROKEN_TRY(const LifeEnd mended_life, live_until(steps, "mended", 2, states_of("straight", begins)));
    const bool is_same_begin = !mended_life.series.empty() &&
                               steps_until(result_.straight, mended_life.series.begin()->first) == first;
    const auto mended = record_of("mended", 2);
    return mended.ok() && is_same_begin
               ? without_what_followed(std::move(names), straight, mended.value(), begins)
               : names;
  }

 private:
  /// The one that differs; where only the final state does, the last one that resumed.
  const Life* resumed_life() const {
    if (!result_.is_printed || !result_.is_deterministic || !result_.difference || !result_.failure.empty())
      return nullptr;
    const std::size_t number = result_.difference->life;
    if (number == 0 || number > result_.lives.size() || !result_.lives[number - 1].is_resumed) return nullptr;
    return &result_.lives[number - 1];
  }

  std::string stem(const std::string& name, int number) const {
    return fmt::format("{}/{}-{}", folder_, name, number);
  }

  /// What the witness keeps of the generators at a step, from 0.
  std::string states_of(const std::string& name, std::size_t step) const {
    return fmt::format("{}.record.{}", stem(name, 1), step + 1);
  }

  /// Killed once it told of so many steps; the generators get the states of a file in its first one. Errors:
  /// as live().
  Result<LifeEnd> live_until(std::uint64_t steps, const std::string& name, int number,
                             const std::string& states = {}) const {
    const std::string stem = this->stem(name, number), witness = stem + ".python";
    const LifeFiles files{folder_ + "/" + name, stem, witness};
    if (number == 1) UNBROKEN_DO(make_folder(files.run));
    UNBROKEN_DO(make_folder(witness));
    std::string text(witness_text());
    const std::array<std::pair<std::string_view, std::string>, 2> places{
        {{"\"{record}\"", stem + ".record"}, {"\"{states}\"", states}}};
    for (const auto& [place, path] : places) {
      UNBROKEN_TRY(const std::string word, canonical_json(Json(path)));
      text.replace(text.find(place), place.size(), word);
    }
    UNBROKEN_DO(write_user_file(witness + "/sitecustomize.py", text));
    Kill kill;
    kill.point = kStepPoint;
    kill.pass = steps;
    kill.step = std::numeric_limits<std::uint64_t>::max();  // nowhere else
    UNBROKEN_TRY(const auto listener,
                 printed_listener(*options_.printed, files, options_.keeps_output, &result_.straight));
    return live(options_, files, kill, *listener);
  }

  Result<std::vector<TapStep>> record_of(const std::string& name, int number) const {
    UNBROKEN_TRY(const std::string text, read_user_file(stem(name, number) + ".record", kRecordBytesMax));
    return parse_tap(text);
  }

  const DrillOptions& options_;
  const DrillResult& result_;
  std::string folder_;
};

}  // namespace

Result<std::vector<std::string>> find_forgotten(const DrillOptions& options, const DrillResult& result) {
  auto found = Search(options, result).run();
  if (found.ok() || found.is(Code::stopped)) return found;
  return std::vector<std::string>();  // it is no training with PyTorch
}

}  // namespace unbroken
