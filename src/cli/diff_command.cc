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

/// `text` tells 1 from "1".
struct Side {
  Json json;
  std::string text;
};

struct Change {
  Side a, b;
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

Side plain(std::string text) {
  return {text, std::move(text)};
}

/// A value of the state as a reader expects it: floats as numbers, bytes by length and digest; the rest as
/// docs/format/state.md spells it. `is_exact`: all of it.
Side value_of(const std::string& text, bool is_exact = false) {
  const auto parsed = parse_json(text);
  if (!parsed.ok()) return plain(text);  // the kind of a container
  const auto node = node_from_json(parsed.value());
  if (node.ok() && !is_exact) {
    if (const auto* number = std::get_if<Float>(&node.value().value)) {
      const Json json = json_number(number->value());
      return {json, json.is_string() ? json.get<std::string>() : json.dump()};
    }
    if (const auto* blob = std::get_if<Blob>(&node.value().value)) {
      const Json json = {{"bytes", blob->bytes.size()}, {"digest", xxh128(as_bytes(blob->bytes)).hex()}};
      return {json, json.dump()};
    }
  }
  return {parsed.value(), parsed.value().dump()};
}

std::optional<TensorRef> tensor_in(const std::optional<std::string>& text) {
  const auto node = parse_tree(text.value_or(""));
  if (!node.ok()) return std::nullopt;
  const auto* ref = std::get_if<TensorRef>(&node.value().value);
  return ref == nullptr ? std::nullopt : std::optional(*ref);
}

std::string whole(const IndexedTensor& t) {
  return fmt::format("{} {}", describe(t.dtype, t.shape), t.digest.hex());
}

void diff_tensors(const Tensors& in_a, const Tensors& in_b, Diff& out) {
  for (const auto& [name, t] : in_a) {
    const auto other = in_b.find(name);
    if (other == in_b.end()) {
      out.only_in_a.push_back(name);
      continue;
    }
    const IndexedTensor& u = *other->second;
    const bool is_alike = t->dtype == u.dtype && t->shape == u.shape;
    const bool is_tied_alike = t->name == u.name;
    if (is_alike && is_tied_alike && t->digest == u.digest) continue;
    const auto text = [&, &name = name](const IndexedTensor& one) {
      const bool tells_tie = !is_tied_alike && one.name != name;
      return (is_alike ? one.digest.hex() : whole(one)) +
             (tells_tie ? " (the same as " + one.name + ")" : "");
    };
    out.changed[name] = {plain(text(*t)), plain(text(u))};
  }
  for (const auto& [name, t] : in_b)
    if (!in_a.contains(name)) out.only_in_b.push_back(name);
}

/// A tensor became a value, a value a tensor, or one of torch one of NumPy.
void diff_kinds(const StateDifference& d, const std::optional<TensorRef>& a,
                const std::optional<TensorRef>& b, const Tensors& in_a, const Tensors& in_b, Diff& out) {
  if (a && b && a->name != b->name) return;  // each is in one only
  const auto side = [&](const std::optional<TensorRef>& ref, const Tensors& tensors,
                        const std::string& text) {
    if (!ref) return value_of(text);
    const std::string_view kind = a && b ? ref->is_array ? "array " : "tensor " : "";
    return plain(fmt::format("{}{}", kind, whole(*tensors.at(ref->name))));
  };
  const std::string& name = a ? a->name : b->name;
  std::erase(out.only_in_a, name);
  std::erase(out.only_in_b, name);
  out.changed[name] = {side(a, in_a, *d.a), side(b, in_b, *d.b)};
}

Diff diff_of(const SavedState& a, const SavedState& b) {
  Diff out;
  const Tensors in_a = tensors_of(a.index), in_b = tensors_of(b.index);
  diff_tensors(in_a, in_b, out);
  for (const StateDifference& d : diff_trees(a.index.tree, b.index.tree)) {
    const auto tensor_a = tensor_in(d.a), tensor_b = tensor_in(d.b);
    if (tensor_a || tensor_b) {
      if (d.a && d.b) diff_kinds(d, tensor_a, tensor_b, in_a, in_b, out);
    } else if (!d.b) {
      out.only_in_a.push_back(d.name);
    } else if (!d.a) {
      out.only_in_b.push_back(d.name);
    } else {
      Change change{value_of(*d.a), value_of(*d.b)};
      if (change.a.json.dump() == change.b.json.dump())  // such as two kinds of NaN
        change = {value_of(*d.a, true), value_of(*d.b, true)};
      out.changed[d.name] = std::move(change);
    }
  }
  return out;
}

Json to_json(const Diff& diff) {
  Json changed = Json::array();
  for (const auto& [name, change] : diff.changed)
    changed.push_back({{"name", name}, {"a", change.a.json}, {"b", change.b.json}});
  return {{"equal", diff.is_equal()},
          {"changed", std::move(changed)},
          {"only_in_a", diff.only_in_a},
          {"only_in_b", diff.only_in_b}};
}

std::string to_text(const Diff& diff) {
  std::string out;
  const auto shown = [](const Side& side) {
    constexpr std::size_t kShown = 80;
    const std::string& text = side.text;
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
