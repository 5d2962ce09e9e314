// A command without Unbroken is heard by the losses that it prints, or writes to a file, and by the files
// that it writes below its directory.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "cli/drill/listen.h"
#include "cli/drill/loss_lines.h"
#include "drill/lines.h"
#include "drill/metrics_lines.h"
#include "os/user/work_folder.h"
#include "os/watch/folder_watch.h"
#include "os/watch/growing_file.h"
#include "os/watch/input.h"

namespace unbroken {

namespace {

constexpr std::size_t kReadsMax = 16;  // of a piece each, between two looks at the child
constexpr std::uint64_t kKeptBytesMax = std::uint64_t{256} << 20;  // of the output of one life

/// "checkpoint-12/model.pt" -> "checkpoint-#/model.pt": one point of all files of a sort.
std::string without_numbers(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c < '0' || c > '9')
      out += c;
    else if (!out.ends_with('#'))
      out += '#';
  }
  return out;
}

std::string point_of(const FolderWatch::Change& change) {
  using What = FolderWatch::Change::What;
  const std::string_view how = change.what == What::written  ? "the first write to"
                               : change.what == What::closed ? "the close of"
                                                             : "the rename to";
  return fmt::format("{} {}", how, without_numbers(change.name));
}

class PrintedListener final : public Listener {
 public:
  PrintedListener(const PrintedOptions& options, const LifeFiles& files, const Series* straight)
      : files_(files),
        metrics_path_(with_directory(options.metrics, files.run)),
        metrics_file_(metrics_path_, GrowingFile::From::end),
        lines_(options.metrics.empty() ? kOutputLineBytesMax : kMetricsLineBytesMax) {
    if (straight != nullptr)
      for (const auto& [step, unused] : *straight) straight_.push_back(step);
  }

  Result<> open(const PrintedOptions& options, bool keeps_output) {
    if (auto watch = FolderWatch::open(files_.run); watch.ok()) watch_.emplace(std::move(watch).value());
    if (options.metrics.empty()) {
      UNBROKEN_TRY(LossLines lines, LossLines::compile(options.loss_regex, files_.run));
      losses_.emplace(std::move(lines));
      if (keeps_output) {
        UNBROKEN_TRY(OutputFile kept, OutputFile::create(files_.out(), kKeptBytesMax));
        kept_.emplace(std::move(kept));
      }
      return Done{};
    }
    UNBROKEN_TRY(const MetricsLines::Kind kind, MetricsLines::kind_of(options.metrics));
    metrics_.emplace(kind);
    read_header();
    return Done{};
  }

  std::vector<std::pair<std::string, std::optional<std::string>>> environment(
      const std::optional<Kill>&) const override {
    // Else what Python prints waits in a buffer, and is lost when it is killed.
    return {{"PYTHONUNBUFFERED", "1"}};
  }
  void prepare(ChildOptions& options) const override { options.is_output_read = losses_.has_value(); }
  void wait(const Child& child, Duration limit) override {
    wait_for_input({child.output(), watch_ ? watch_->number() : -1}, limit);
  }

  Result<> look(Child& child, bool is_over, std::vector<std::string>& points) override {
    look_at_files(points);
    for (std::size_t i = 0; i < kReadsMax || is_over; ++i) {
      const std::size_t count = losses_ ? child.read_output(room_) : metrics_file_.read(room_);
      if (metrics_ && metrics_file_.take_restart()) {
        metrics_->begin_anew();
        lines_.forget();
      }
      if (count == 0) break;
      const std::string_view piece(room_.data(), count);
      if (losses_) pass_on(piece);
      UNBROKEN_DO(take(piece, points));
      // A process that left the command behind may write on for ever.
      if (losses_ && is_over && i > kReadsMax * kReadsMax) break;
    }
    return Done{};
  }
  std::uint64_t completed() const override { return completed_; }
  bool has_checkpoint() override { return has_checkpoint_; }
  bool is_killed_by_itself() const override { return false; }

  Result<> finish(LifeEnd& life) override {
    // The last line of a life that was killed may be half of one.
    const std::string rest(lines_.rest());
    if (!life.was_killed && !rest.empty()) UNBROKEN_DO(add_line(rest));
    life.series = std::move(series_);
    life.steps = as_steps(life.series);
    if (life.series.empty()) life.why_silent = why_silent();
    life.committed = committed_;
    return Done{};
  }

 private:
  void look_at_files(std::vector<std::string>& points) {
    if (!watch_) return;
    for (const FolderWatch::Change& change : watch_->changes()) {
      if (files_.run + "/" + change.name == metrics_path_) continue;
      points.push_back(point_of(change));
      // What was written before the first step is no checkpoint of any use.
      if (change.what == FolderWatch::Change::What::written || completed_ == 0) continue;
      has_checkpoint_ = true;
      committed_ = completed_;
      points.emplace_back(kCommitPoint);
    }
  }

  Result<> add_line(std::string_view line) {
    return losses_ ? losses_->add(line, series_) : metrics_->add(line, series_);
  }

  Result<> take(std::string_view piece, std::vector<std::string>& points) {
    Result<> result = Done{};
    lines_.add(piece, [&](std::string_view line) {
      if (!result.ok()) return;
      const std::size_t before = series_.size();
      result = add_line(line);
      if (series_.size() == before) return;
      points.emplace_back(kStepPoint);
      const std::uint64_t newest = series_.rbegin()->first;
      completed_ =
          straight_.empty()
              ? series_.size()
              : static_cast<std::uint64_t>(std::upper_bound(straight_.begin(), straight_.end(), newest) -
                                           straight_.begin());
    });
    return result;
  }

  /// To the file of this life, or as before to our stderr.
  void pass_on(std::string_view piece) {
    if (kept_)
      kept_->add(piece);
    else
      std::fwrite(piece.data(), 1, piece.size(), stderr);
  }

  /// Where an earlier life has written the header, what this one adds stands under it.
  void read_header() {
    GrowingFile file(metrics_path_, GrowingFile::From::start);
    LineCutter lines(kMetricsLineBytesMax);
    bool is_found = false;
    const auto take = [&](std::string_view line) {
      Series ignored;
      if (!is_found) is_found = metrics_->add(line, ignored).ok();
    };
    while (const std::size_t count = is_found ? 0 : file.read(room_)) lines.add({room_.data(), count}, take);
    if (!is_found && !lines.rest().empty()) take(lines.rest());
  }

  std::string why_silent() const {
    if (losses_)
      return losses_->odd_step().empty()
                 ? "no line of its output matches --loss-regex"
                 : fmt::format("--loss-regex matches, but its step \"{}\" is no whole number",
                               losses_->odd_step());
    const std::string names = metrics_->names();
    return names.empty() ? fmt::format("--metrics {}: nothing was written there", metrics_path_)
                         : fmt::format(
                               "--metrics {}: a column \"step\" and one whose name has \"loss\" in it are "
                               "needed; there are: {}",
                               metrics_path_, names.substr(0, 1000));
  }

  const LifeFiles files_;
  std::vector<std::uint64_t> straight_;
  std::string metrics_path_;
  GrowingFile metrics_file_;
  std::optional<FolderWatch> watch_;
  std::optional<LossLines> losses_;
  std::optional<MetricsLines> metrics_;
  std::optional<OutputFile> kept_;
  LineCutter lines_;
  std::vector<char> room_ = std::vector<char>(std::size_t{256} << 10);
  Series series_;
  std::uint64_t completed_ = 0, committed_ = 0;
  bool has_checkpoint_ = false;
};

}  // namespace

Result<std::unique_ptr<Listener>> printed_listener(const PrintedOptions& options, const LifeFiles& files,
                                                   bool keeps_output, const Series* straight) {
  auto out = std::make_unique<PrintedListener>(options, files, straight);
  UNBROKEN_DO(out->open(options, keeps_output));
  return std::unique_ptr<Listener>(std::move(out));
}

}  // namespace unbroken
