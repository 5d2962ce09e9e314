#include "cli/drill/loss_lines.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include "cli/drill/drill_life.h"

namespace unbroken {

namespace {

constexpr std::size_t kPatternBytesMax = 4096;
constexpr std::string_view kExample = R"(--loss-regex 'step (?P<step>\d+) loss (?P<loss>\S+)')";

Error wrong(std::string_view why) {
  return Error(Code::bad_argument, fmt::format("--loss-regex: {}; for example {}", why, kExample));
}

/// (?<name>...) in the spelling that every version of RE2 knows.
std::string with_p(std::string_view pattern) {
  std::string out;
  bool is_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view rest = pattern.substr(i);
    if (!is_class && rest.starts_with("(?<") && !rest.starts_with("(?<=") && !rest.starts_with("(?<!")) {
      out += "(?P<";
      i += 2;
      continue;
    }
    if (pattern[i] == '[') is_class = true;
    if (pattern[i] == ']') is_class = false;
    if (pattern[i] == '\\' && i + 1 < pattern.size()) out += pattern[i++];
    out += pattern[i];
  }
  return out;
}

}  // namespace

LossLines::LossLines(std::unique_ptr<re2::RE2> regex) : regex_(std::move(regex)) {}
LossLines::LossLines(LossLines&&) noexcept = default;
LossLines::~LossLines() = default;

Result<LossLines> LossLines::compile(std::string_view pattern, std::string_view directory) {
  if (pattern.empty()) return wrong("it is empty");
  if (pattern.size() > kPatternBytesMax)
    return wrong(fmt::format("it is longer than {} bytes", kPatternBytesMax));
  RE2::Options options;
  options.set_log_errors(false);
  const std::string quoted = RE2::QuoteMeta(re2::StringPiece(directory.data(), directory.size()));
  auto regex = std::make_unique<RE2>(with_p(with_directory(pattern, quoted)), options);
  if (!regex->ok()) return wrong(regex->error());
  LossLines out(std::move(regex));
  for (const auto& [name, number] : out.regex_->NamedCapturingGroups()) {
    if (name == "step")
      out.step_ = number;
    else
      out.values_.push_back({name, number});
  }
  if (out.step_ == 0) return wrong("it has no group named step");
  if (!out.regex_->NamedCapturingGroups().contains("loss")) return wrong("it has no group named loss");
  return out;
}

Result<> LossLines::add(std::string_view line, Series& series) {
  std::vector<re2::StringPiece> groups(static_cast<std::size_t>(regex_->NumberOfCapturingGroups()) + 1);
  if (!regex_->Match(re2::StringPiece(line.data(), line.size()), 0, line.size(), RE2::UNANCHORED,
                     groups.data(), static_cast<int>(groups.size())))
    return Done{};
  const auto text_of = [&](int number) {
    const auto& group = groups[static_cast<std::size_t>(number)];
    return std::string_view(group.data() == nullptr ? "" : group.data(), group.size());
  };
  const auto step = step_of_text(text_of(step_));
  if (!step) {
    constexpr std::size_t kShown = 40;
    if (odd_step_.empty()) odd_step_ = text_of(step_).substr(0, kShown);
    return Done{};
  }
  for (const Group& group : values_)
    if (const std::string_view text = text_of(group.number); !text.empty())
      UNBROKEN_DO(put(series, *step, group.name, text));
  return Done{};
}

}  // namespace unbroken
