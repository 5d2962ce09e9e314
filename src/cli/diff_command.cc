// `unbroken diff`: two checkpoints of a run, name by name; tensors by digest, so no shard is read.
#include <fmt/format.h>

#include <map>

#include "base/digest.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/look.h"

namespace unbroken {

namespace {

struct Change {
  Json a, b;
};

struct Diff {
  std::map<std::string, Change> changed;
  std::vector<std::string> only_in_a, only_in_b;
  bool is_equal() const { return changed.empty() && only_in_a.empty() && only_in_b.empty(); }
};

using Tensors = std::map<std::string, const IndexedTensor*>;

/// Tied tensors under each of their names.
Tensors tensors_of(const Index& index) {
  Tensors out;
  for (const IndexedTensor& t : index.tensors) out[t.name] = &t;
  for (const Alias& alias : index.aliases) out[alias.name] = out.at(alias.of);
  return out;
}

/// A value of the state as a reader expects it: floats as numbers, bytes by length and digest; the rest as
/// docs/format/state.md spells it.
Json value_of(const std::optional<std::string>& text) {
  const auto parsed = parse_json(text.value_or("null"));
  if (!parsed.ok()) return *text;  // the kind of a container
  const auto node = node_from_json(parsed.value());
  if (!node.ok()) return parsed.value();
  if (const auto* number = std::get_if<Float>(&node.value().value)) return json_number(number->value());
  if (const auto* blob = std::get_if<Blob>(&node.value().value))
    return {{"bytes", blob->bytes.size()}, {"digest", xxh128(as_bytes(blob->bytes)).hex()}};
  return parsed.value();
}

Diff diff_of(const SavedState& a, const SavedState& b) {
  Diff out;
  const Tensors in_a = tensors_of(a.index), in_b = tensors_of(b.index);
  for (const auto& [name, t] : in_a) {
    const auto other = in_b.find(name);
    if (other == in_b.end()) {
      out.only_in_a.push_back(name);
      continue;
    }
    const IndexedTensor& u = *other->second;
    const bool is_alike = t->dtype == u.dtype && t->shape == u.shape;
    if (is_alike && t->digest == u.digest) continue;
    const auto text = [&](const IndexedTensor& one) {
      return is_alike ? one.digest.hex()
                      : fmt::format("{} {}", describe(one.dtype, one.shape), one.digest.hex());
    };
    out.changed[name] = {text(*t), text(u)};
  }
  for (const auto& [name, t] : in_b)
    if (!in_a.contains(name)) out.only_in_b.push_back(name);
  for (const StateDifference& d : diff_trees(a.index.tree, b.index.tree)) {
    if (in_a.contains(d.name) || in_b.contains(d.name)) continue;
    if (!d.b) {
      out.only_in_a.push_back(d.name);
    } else if (!d.a) {
      out.only_in_b.push_back(d.name);
    } else {
      Change change{value_of(d.a), value_of(d.b)};
      if (change.a == change.b) change = {*d.a, *d.b};  // such as two kinds of NaN
      out.changed[d.name] = std::move(change);
    }
  }
  return out;
}

Json to_json(const Diff& diff) {
  Json changed = Json::array();
  for (const auto& [name, change] : diff.changed)
    changed.push_back({{"name", name}, {"a", change.a}, {"b", change.b}});
  return {{"equal", diff.is_equal()},
          {"changed", std::move(changed)},
          {"only_in_a", diff.only_in_a},
          {"only_in_b", diff.only_in_b}};
}

std::string to_text(const Diff& diff) {
  std::string out;
  const auto shown = [](const Json& value) {
    constexpr std::size_t kShown = 80;
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    return printable(text.size() <= kShown ? text : text.substr(0, kShown) + "...");
  };
  for (const std::string& name : diff.only_in_a) out += painted("- " + printable(name), Colour::red) + "\n";
  for (const std::string& name : diff.only_in_b) out += painted("+ " + printable(name), Colour::green) + "\n";
  for (const auto& [name, change] : diff.changed)
    out += fmt::format("{}  {} -> {}\n", painted("~ " + printable(name), Colour::yellow), shown(change.a),
                       shown(change.b));
  return out;
}

Result<int> diff(const std::string& directory, const std::string& a, const std::string& b, bool is_json) {
  UNBROKEN_TRY(const Look look, look_at(directory));
  UNBROKEN_TRY(const Reader one, read_at(look, directory, a, "comparing"));
  UNBROKEN_TRY(const Reader other, read_at(look, directory, b, "comparing"));
  const Diff found = diff_of(one.saved(), other.saved());
  UNBROKEN_DO(is_json ? print_json(to_json(found)) : print(to_text(found)));
  return found.is_equal() ? 0 : 1;
}

}  // namespace

int diff_command(int argc, char** argv) {
  CLI::App app("What two checkpoints of a run do not have alike; 0: nothing, 1: something", "unbroken diff");
  std::string directory, a, b;
  bool is_json = false;
  app.add_option("DIR", directory, "the run's directory")->required();
  app.add_option("A", a, kAtHelp)->required();
  app.add_option("B", b, "the other one")->required();
  app.add_flag("--json", is_json, "one JSON object");
  return run_command(app, argc, argv, [&] { return diff(directory, a, b, is_json); });
}

}  // namespace unbroken
