#include "restore/choose.h"

#include <fmt/format.h>

#include <set>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/utf8.h"
#include "journal/retention.h"

namespace unbroken {

namespace {
constexpr std::string_view kBest = "best:", kTag = "tag:";
}

Result<At> parse_at(std::string_view text) {
  At at;
  if (text == "newest") return at;
  at.text = std::string(text);
  if (const auto step = parse_u64(text); step.ok()) {
    at.kind = At::Kind::step;
    at.step = step.value();
    return at;
  }
  if (const auto save = SaveId::from_name(text); save.ok()) {
    at.kind = At::Kind::save;
    at.save = save.value();
    at.step = at.save.step;
    return at;
  }
  for (const auto& [start, kind] : {std::pair(kBest, At::Kind::best), std::pair(kTag, At::Kind::tag)}) {
    if (!text.starts_with(start)) continue;
    at.kind = kind;
    at.name = std::string(text.substr(start.size()));
    if (at.name.empty() || (kind == At::Kind::tag && !is_tag_name(at.name))) break;
    return at;
  }
  return Error(
      Code::bad_argument,
      fmt::format("\"{}\" names no checkpoint: use newest, a step such as 1200, a name such as 1200.a3, "
                  "best:METRIC or tag:NAME",
                  text));
}

std::string list_of_good(const History& history, std::size_t count_max, const std::set<SaveId>& left_out) {
  std::string out;
  std::size_t count = 0;
  for (std::size_t i = history.checkpoints().size(); i-- > 0 && count < count_max;) {
    const Checkpoint& c = history.checkpoints()[i];
    if (!c.is_good() || left_out.contains(c.commit.save)) continue;
    if (count++ > 0) out += ", ";
    out += c.commit.save.name();
  }
  return out.empty() ? "none" : out;
}

namespace {

Error missing(const std::string& name, const History& history) {
  return Error(Code::not_found,
               fmt::format("there is no checkpoint {}; there are: {}", name, list_of_good(history)));
}

Result<const Checkpoint*> usable(const Checkpoint* c, const History& history) {
  if (c->is_intended)
    return Error(Code::not_found, fmt::format("checkpoint {} was removed by retention; there are: {}",
                                              c->commit.save.name(), list_of_good(history)));
  if (c->is_quarantined())
    return Error(Code::corrupt,
                 fmt::format("checkpoint {} is damaged: {}: {}; there are: {}", c->commit.save.name(),
                             c->quarantine->object, c->quarantine->seen, list_of_good(history)));
  return c;
}

Result<const Checkpoint*> choose_newest(const History& history) {
  if (const Checkpoint* newest = history.newest()) return newest;
  const std::string others = list_of_good(history);
  return Error(Code::not_found, others == "none" ? "there is no checkpoint that can be loaded"
                                                 : "there is no checkpoint on the current lineage that can "
                                                   "be loaded; name one of another: " +
                                                       others);
}

Result<const Checkpoint*> choose_step(const History& history, std::uint64_t step) {
  for (const Checkpoint* c : history.lineage())
    if (c->commit.save.step == step && !c->is_intended) return usable(c, history);
  std::vector<const Checkpoint*> left;
  const Checkpoint* removed = nullptr;
  for (const Checkpoint& c : history.checkpoints()) {
    if (c.commit.save.step != step) continue;
    if (c.is_intended) {
      removed = &c;
    } else {
      left.push_back(&c);
    }
  }
  if (left.size() == 1) return usable(left.front(), history);
  if (left.empty() && removed != nullptr) return usable(removed, history);
  if (left.empty()) return missing(fmt::format("{}", step), history);
  std::string names;
  for (const Checkpoint* c : left) names += (names.empty() ? "" : ", ") + c->commit.save.name();
  return Error(Code::bad_argument, fmt::format("step {} is ambiguous: {}", step, names));
}

std::string list_of(const std::set<std::string>& names) {
  return names.empty() ? "none" : printable(fmt::format("{}", fmt::join(names, ", ")));
}

Result<const Checkpoint*> choose_tagged(const History& history, const std::string& tag) {
  std::set<std::string> there;
  const Checkpoint* newest = nullptr;
  for (const Checkpoint& c : history.checkpoints()) {
    if (c.is_intended) continue;
    there.insert(c.tags.begin(), c.tags.end());
    if (c.tags.contains(tag)) newest = &c;
  }
  if (newest != nullptr) return usable(newest, history);
  return Error(Code::not_found,
               fmt::format("no checkpoint is tagged {}; tags there are: {}", printable(tag), list_of(there)));
}

Result<const Checkpoint*> choose_best(const History& history, const At& at) {
  std::set<std::string> there;
  for (const Checkpoint& c : history.checkpoints())
    if (c.is_good())
      for (const auto& [name, value] : c.commit.metrics) there.insert(name);
  const std::string metric = printable(at.name);
  if (!there.contains(at.name))
    return Error(Code::not_found, fmt::format("no checkpoint has the metric {}; metrics there are: {}",
                                              metric, list_of(there)));
  const auto& kept = history.policy().best;
  const bool is_kept = kept && kept->metric == at.name;
  if (!at.rule && !is_kept)
    return Error(
        Code::not_found,
        fmt::format("whether less or more of {} is better is said by keep_best, which this run has {}",
                    metric, kept ? "for " + printable(kept->metric) : "not"));
  if (const Checkpoint* c = best(history, at.rule ? *at.rule : *kept)) return c;
  return Error(Code::not_found, fmt::format("no checkpoint that can be loaded has a finite {}", metric));
}

}  // namespace

Result<const Checkpoint*> choose(const History& history, const At& at) {
  switch (at.kind) {
    case At::Kind::newest:
      return choose_newest(history);
    case At::Kind::step:
      return choose_step(history, at.step);
    case At::Kind::best:
      return choose_best(history, at);
    case At::Kind::tag:
      return choose_tagged(history, at.name);
    case At::Kind::save:
      break;
  }
  const Checkpoint* c = history.find(at.save);
  if (c == nullptr && history.may_be_deleted(at.save))
    return Error(
        Code::not_found,
        fmt::format("there is no checkpoint {}: it was removed by retention, or never made; there are: {}",
                    at.save.name(), list_of_good(history)));
  if (c == nullptr) return missing(at.save.name(), history);
  return usable(c, history);
}

}  // namespace unbroken
