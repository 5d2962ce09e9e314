// `unbroken show`: one checkpoint as its index and manifest describe it; the shard itself is not read.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/look.h"

namespace unbroken {

namespace {

struct Held {
  const IndexedTensor* tensor;
  std::string name;
  bool is_alias;
};

/// Every name, also the second one of tied tensors, in order.
std::vector<Held> held_by(const Index& index) {
  std::vector<Held> out;
  std::map<std::string_view, const IndexedTensor*> by_name;
  for (const IndexedTensor& t : index.tensors) {
    out.push_back({&t, t.name, false});
    by_name[t.name] = &t;
  }
  for (const Alias& alias : index.aliases) out.push_back({by_name.at(alias.of), alias.name, true});
  std::sort(out.begin(), out.end(), [](const Held& a, const Held& b) { return a.name < b.name; });
  return out;
}

bool is_opaque(const Leaf& leaf) {
  return leaf.value.starts_with("{\"bytes\":");
}

Json to_json(const SavedState& saved) {
  Json tensors = Json::array(), state = Json::array(), opaque = Json::array(), metrics = Json::object();
  for (const Held& held : held_by(saved.index)) {
    tensors.push_back({{"name", held.name},
                       {"dtype", name_of(held.tensor->dtype)},
                       {"shape", held.tensor->shape},
                       {"bytes", held.tensor->bytes},
                       {"digest", held.tensor->digest.hex()}});
    if (held.is_alias) tensors.back()["same_as"] = held.tensor->name;
  }
  for (const Leaf& leaf : flatten(saved.index.tree)) {
    if (leaf.is_tensor) continue;
    state.push_back(leaf.name);
    if (is_opaque(leaf)) opaque.push_back(leaf.name);
  }
  for (const auto& [name, value] : saved.manifest.metrics) metrics[name] = json_number(value);
  const SaveId& save = saved.commit.save;
  return {{"step", save.step},
          {"attempt", save.attempt},
          {"try", save.try_index},
          {"name", save.name()},
          {"bytes", saved.commit.state_bytes},
          {"tensors", std::move(tensors)},
          {"state", std::move(state)},
          {"opaque", std::move(opaque)},
          {"metrics", std::move(metrics)},
          {"health", saved.commit.health},
          {"provenance", saved.manifest.provenance}};
}

std::string to_text(const SavedState& saved) {
  std::string out = fmt::format("{}: {} in {} tensors\n", saved.commit.save.name(),
                                format_bytes(saved.commit.state_bytes), saved.index.tensors.size());
  for (const auto& [name, value] : saved.manifest.provenance)
    out += fmt::format("  {:<11} {}\n", printable(name), printable(value));
  for (const auto& [name, value] : saved.manifest.metrics)
    out += fmt::format("  {:<11} {:.6g}\n", printable(name), value);
  out += "\ntensors\n";
  for (const Held& held : held_by(saved.index))
    out += fmt::format("  {}  {}  {}  {}{}\n", held.tensor->digest.hex(),
                       describe(held.tensor->dtype, held.tensor->shape), format_bytes(held.tensor->bytes),
                       printable(held.name),
                       held.is_alias ? fmt::format(" (the same as {})", printable(held.tensor->name)) : "");
  out += "\nstate\n";
  for (const Leaf& leaf : flatten(saved.index.tree)) {
    if (leaf.is_tensor) continue;
    constexpr std::size_t kShown = 60;
    const bool is_long = leaf.value.size() > kShown;
    out += fmt::format("  {} = {}{}\n", printable(leaf.name), is_opaque(leaf) ? "opaque bytes " : "",
                       is_long ? fmt::format("({} characters)", leaf.value.size()) : printable(leaf.value));
  }
  return out;
}

Result<int> show(const std::string& directory, const std::string& at, bool is_json) {
  UNBROKEN_TRY(const Look look, look_at(directory));
  UNBROKEN_TRY(const Reader reader, read_at(look, directory, at, "showing"));
  UNBROKEN_DO(is_json ? print_json(to_json(reader.saved())) : print(to_text(reader.saved())));
  return 0;
}

}  // namespace

int show_command(int argc, char** argv) {
  CLI::App app("What a checkpoint holds: tensors, state, provenance", "unbroken show");
  std::string directory, at = "newest";
  bool is_json = false;
  app.add_option("DIR", directory, "the run's directory")->required();
  app.add_option("AT", at, kAtHelp);
  app.add_flag("--json", is_json, "one JSON object");
  return run_command(app, argc, argv, [&] { return show(directory, at, is_json); });
}

}  // namespace unbroken
