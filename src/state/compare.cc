#include "state/compare.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/check.h"

namespace unbroken {

namespace {

/// A name and, for a tensor, what it is.
struct Item {
  std::string_view name;
  const TensorSpec* tensor = nullptr;
};

std::vector<Item> sorted(const StateNames& side) {
  std::vector<Item> items;
  items.reserve(side.tensors.size() + side.paths.size());
  for (const TensorSpec& tensor : side.tensors) items.push_back({tensor.name, &tensor});
  for (const std::string& path : side.paths) items.push_back({path, nullptr});
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(items.begin(), items.end(),
                                        [](const Item& a, const Item& b) { return a.name == b.name; });
  UNBROKEN_CHECK(twice == items.end());
  return items;
}

std::string describe(const Item& item) {
  return item.tensor ? describe(item.tensor->dtype, item.tensor->shape) : "not a tensor";
}

bool fits(const Item& saved, const Item& live) {
  if (!saved.tensor || !live.tensor) return saved.tensor == live.tensor;
  return saved.tensor->dtype == live.tensor->dtype && saved.tensor->shape == live.tensor->shape;
}

}  // namespace

void Mismatch::add(Mismatch other) {
  const auto append = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  append(missing, other.missing);
  append(unread, other.unread);
  append(changed, other.changed);
}

std::string Mismatch::text() const {
  std::string out;
  for (const std::string& name : missing) out += "  missing  " + name + ": attached, not in the checkpoint\n";
  for (const std::string& name : unread)
    out += "  unread   " + name + ": in the checkpoint, nothing attached takes it\n";
  for (const Changed& c : changed)
    out += "  changed  " + c.name + ": saved " + c.saved + ", live " + c.live + "\n";
  return out;
}

Mismatch compare_states(const StateNames& saved, const StateNames& live) {
  const std::vector<Item> a = sorted(saved);
  const std::vector<Item> b = sorted(live);
  Mismatch out;
  std::size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    if (j == b.size() || (i < a.size() && a[i].name < b[j].name)) {
      out.unread.emplace_back(a[i++].name);
    } else if (i == a.size() || b[j].name < a[i].name) {
      out.missing.emplace_back(b[j++].name);
    } else {
      if (!fits(a[i], b[j])) out.changed.push_back({std::string(a[i].name), describe(a[i]), describe(b[j])});
      ++i, ++j;
    }
  }
  return out;
}

}  // namespace unbroken
