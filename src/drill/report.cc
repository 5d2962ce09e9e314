#include "drill/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/text.h"
#include "chart/plot.h"
#include "chart/text.h"

namespace unbroken {

namespace {

constexpr std::size_t kCurvesMax = 4, kLivesMax = 500, kNamesMax = 50, kTextMax = 4000, kBuckets = 400;
// Told apart with any colour vision (Okabe and Ito), on white and on black.
constexpr std::string_view kStraight = "#56b4e9", kKilled = "#d55e00", kCross = "#cc79a7";

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// The finite values of one metric.
Points curve_of(const Series& series, const std::string& name) {
  Points out;
  for (const auto& [step, metrics] : series)
    if (const auto found = metrics.find(name); found != metrics.end())
      if (const auto value = number_of(found->second)) out.emplace_back(static_cast<double>(step), *value);
  return out;
}

/// Losses before other metrics.
std::vector<std::string> metrics_of(const Series& series) {
  std::set<std::string> names;
  for (const auto& [step, metrics] : series)
    for (const auto& [name, text] : metrics) names.insert(name);
  std::vector<std::string> out(names.begin(), names.end());
  std::stable_partition(out.begin(), out.end(),
                        [](const std::string& name) { return name.find("loss") != std::string::npos; });
  return out;
}

void draw_steps(Plot& plot, const DrillResult& result) {
  const auto low = static_cast<double>(result.straight.begin()->first);
  for (const double tick : round_ticks(low, static_cast<double>(result.straight.rbegin()->first), 8))
    if (tick == std::floor(tick)) plot.x_tick(tick, fmt::format("{:.0f}", tick));
  plot.x_title("step");
}

/// A line and a number for each kill; of a life that completed no step, where it began.
void mark_kills(Plot& plot, const DrillResult& result) {
  const std::uint64_t first = result.straight.begin()->first;
  int row = 0;
  for (std::size_t i = 0; i < std::min(result.lives.size(), kLivesMax); ++i)
    if (const Life& life = result.lives[i]; !life.killed.empty())
      plot.mark(static_cast<double>(std::max(first, life.last.value_or(life.began.value_or(first)))),
                fmt::format("kill {}", i + 1), row++ % 4, "4 3");
}

std::string curve(const DrillResult& result, const std::string& name) {
  const Points straight = curve_of(result.straight, name);
  std::vector<Points> lives;
  for (const Life& life : result.lives) lives.push_back(curve_of(life.series, name));
  if (!result.again.empty()) lives.push_back(curve_of(result.again, name));
  double low = HUGE_VAL, high = -HUGE_VAL;
  const auto widen = [&](const Points& points) {
    for (const auto& [step, value] : points) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  };
  widen(straight);
  for (const Points& life : lives) widen(life);
  if (!(low <= high)) return fmt::format("<p>{}: no value is a number.</p>\n", escaped(name, 200));
  const Scale steps = Scale::linear(static_cast<double>(result.straight.begin()->first),
                                    static_cast<double>(result.straight.rbegin()->first));
  Plot plot(
      {.height = 380}, steps, Scale::linear(low, high), name, {},
      fmt::format("{} over the steps: the undisturbed run, and on it the lives that were killed", name));
  for (const double tick : round_ticks(low, high, 5)) plot.y_tick(tick, fmt::format("{:.4g}", tick));
  draw_steps(plot, result);
  plot.line(thinned(straight, kBuckets), {.colour = kStraight, .width = 5});
  for (const Points& life : lives) plot.line(thinned(life, kBuckets), {.colour = kKilled, .width = 1.5});
  mark_kills(plot, result);
  if (const auto& d = result.difference; d && steps.holds(static_cast<double>(d->step)))
    plot.mark(static_cast<double>(d->step), "first difference", 4, "none");
  plot.legend(kStraight, "undisturbed");
  plot.legend(kKilled, result.again.empty() ? "killed and resumed" : "undisturbed, again");
  return fmt::format("<figure>{}</figure>\n", std::move(plot).finish());
}

/// Which steps each life went through, and where it was killed.
std::string lanes(const DrillResult& result) {
  constexpr std::size_t kLanesMax = 40;
  const std::size_t count = std::min(result.lives.size(), kLanesMax);
  if (count == 0 || result.straight.empty()) return {};
  const auto low = static_cast<double>(result.straight.begin()->first);
  Plot plot({.height = 118 + 18 * static_cast<double>(count)},
            Scale::linear(low, static_cast<double>(result.straight.rbegin()->first)),
            Scale::linear(-static_cast<double>(count) - 0.3, -1), "lives", {},
            "The steps of each life; a cross where it was killed");
  draw_steps(plot, result);
  for (std::size_t i = 0; i < count; ++i) {
    const Life& life = result.lives[i];
    const double y = -1 - static_cast<double>(i);
    plot.y_tick(y, fmt::format("{}", i + 1));
    const double from = life.series.empty() ? static_cast<double>(life.began.value_or(0))
                                            : static_cast<double>(life.series.begin()->first);
    const auto to = static_cast<double>(life.last.value_or(life.began.value_or(0)));
    plot.segment(from, y, to, y, {.colour = kKilled, .width = 5});
    if (!life.killed.empty()) plot.cross(to, y, kCross, life.killed);
  }
  plot.legend(kCross, "killed");
  return fmt::format("<figure>{}</figure>\n", std::move(plot).finish());
}

std::string lives_table(const DrillResult& result) {
  std::string out =
      "<table>\n<tr><th>life</th><th class='text'>resumed at</th><th>steps</th><th>last step</th>"
      "<th class='text'>killed by</th><th class='text'>ended</th><th>time</th></tr>\n";
  for (std::size_t i = 0; i < std::min(result.lives.size(), kLivesMax); ++i) {
    const Life& life = result.lives[i];
    const std::string began = !life.began        ? "ended before it began"
                              : !life.is_resumed ? "from the start"
                                                 : fmt::format("step {}", *life.began);
    out += fmt::format(
        "<tr><td>{}</td><td class='text'>{}</td><td>{}</td><td>{}</td><td class='text'>{}</td>"
        "<td class='text'>{}</td><td>{}</td></tr>\n",
        i + 1, began, life.steps, life.last ? fmt::format("{}", *life.last) : "",
        life.killed.empty() ? "nobody" : escaped(life.killed, kTextMax), escaped(life.ended, kTextMax),
        format_duration(life.seconds));
  }
  if (result.lives.size() > kLivesMax)
    out += fmt::format("<tr><td class='text' colspan='7'>and {} more</td></tr>\n",
                       result.lives.size() - kLivesMax);
  return out + "</table>\n";
}

std::string names_list(std::string_view title, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  std::string out = fmt::format("<p>{}</p>\n<ul>\n", title);
  for (std::size_t i = 0; i < std::min(names.size(), kNamesMax); ++i)
    out += fmt::format("<li><code>{}</code></li>\n", escaped(names[i], kTextMax));
  if (names.size() > kNamesMax) out += fmt::format("<li>and {} more</li>\n", names.size() - kNamesMax);
  return out + "</ul>\n";
}

std::string difference_of(const DrillResult& result) {
  std::string out;
  if (const auto& d = result.difference) {
    const auto shown = [](const std::string& text) {
      return text.empty() ? std::string("nothing") : escaped(text, kTextMax);
    };
    out = fmt::format(
        "<h2>First difference</h2>\n<table>\n"
        "<tr><th class='text'>step</th><td class='text'>{}</td></tr>\n"
        "<tr><th class='text'>name</th><td class='text'><code>{}</code></td></tr>\n"
        "<tr><th class='text'>undisturbed</th><td class='text'><code>{}</code></td></tr>\n"
        "<tr><th class='text'>{}</th><td class='text'><code>{}</code></td></tr>\n</table>\n",
        d->step, escaped(d->name, kTextMax), shown(d->straight),
        !result.is_deterministic ? "again"
        : d->life == 0           ? "killed"
                                 : fmt::format("life {}", d->life),
        shown(d->other));
  }
  if (!result.failure.empty()) out += fmt::format("<pre>{}</pre>\n", escaped(result.failure, kTextMax));
  if (const std::string why = explanation(result); !why.empty())
    out += fmt::format("<p><strong>{}</strong></p>\n", escaped(why, kTextMax));
  return out + names_list("Not attached, so that no checkpoint holds it:", result.not_attached) +
         names_list("In the final state these differ:", result.final_differs);
}

}  // namespace

std::string report_html(const ReportHead& head, const DrillResult& result) {
  const bool is_good = head.refusal.empty() && result.is_ok();
  const std::string verdict = !head.refusal.empty()      ? "proves nothing"
                              : !result.is_deterministic ? "the command is different each time"
                              : result.is_ok()           ? "continues bit for bit"
                                                         : "does not continue bit for bit";
  std::string command;
  for (const std::string& word : head.command) command += (command.empty() ? "" : " ") + word;
  std::string body = fmt::format(
      "<h1>Drill: <span class='{}'>{}</span></h1>\n<p>{}</p>\n<p><code>{}</code></p>\n"
      "<p>{} of {} kills, at {}, seed {}; {} lives resumed.</p>\n",
      is_good ? "good" : "bad", verdict,
      escaped(head.refusal.empty() ? headline(result) : head.refusal, kTextMax), escaped(command, kTextMax),
      result.kills, head.kills_wanted, escaped(head.at), head.seed, result.resumes);
  if (!result.not_seen.empty())
    body += fmt::format("<p>{} steps were lost with a life before they were printed, and not compared.</p>\n",
                        result.not_seen.size());
  if (result.is_printed)
    body += result.has_final
                ? "<p>Compared: the values as they were printed, and the final state.</p>\n"
                : "<p>Compared: the values as they were printed. No final state was named.</p>\n";
  body += difference_of(result);
  const std::vector<std::string> metrics = metrics_of(result.straight);
  body += "<h2>Curves</h2>\n";
  for (std::size_t i = 0; i < std::min(metrics.size(), kCurvesMax); ++i) body += curve(result, metrics[i]);
  if (metrics.empty()) body += "<p>The command logs no metric.</p>\n";
  if (!result.lives.empty()) body += "<h2>Lives</h2>\n" + lanes(result) + lives_table(result);
  return html_page("Drill: " + verdict, body);
}

}  // namespace unbroken
