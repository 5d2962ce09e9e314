#include "restore/choose.h"

#include <fmt/format.h>

#include <vector>

#include "base/text.h"

namespace unbroken {

Result<At> parse_at(std::string_view text) {
  if (text == "newest") return At{};
  if (text.starts_with("best:") || text.starts_with("tag:"))
    return Error(Code::bad_argument, fmt::format("\"{}\": comes later", text));
  if (const auto step = parse_u64(text); step.ok())
    return At{At::Kind::step, step.value(), {}, std::string(text)};
  if (const auto save = SaveId::from_name(text); save.ok())
    return At{At::Kind::save, save.value().step, save.value(), std::string(text)};
  return Error(
      Code::bad_argument,
      fmt::format("\"{}\" names no checkpoint: use newest, a step such as 1200, or a name such as 1200.a3",
                  text));
}

std::string list_of_good(const History& history, std::size_t count_max) {
  std::string out;
  std::size_t count = 0;
  for (std::size_t i = history.checkpoints().size(); i-- > 0 && count < count_max;) {
    const Checkpoint& c = history.checkpoints()[i];
    if (!c.is_good()) continue;
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

}  // namespace

Result<const Checkpoint*> choose(const History& history, const At& at) {
  switch (at.kind) {
    case At::Kind::newest:
      return choose_newest(history);
    case At::Kind::step:
      return choose_step(history, at.step);
    case At::Kind::save:
      break;
  }
  const Checkpoint* c = history.find(at.save);
  if (c == nullptr) return missing(at.save.name(), history);
  return usable(c, history);
}

}  // namespace unbroken
