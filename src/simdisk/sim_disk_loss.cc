// What power loss leaves. One walk over the tree asks a `Choices` at every point where the outcome is open:
// drawn for a random loss, counted through for all of them.
#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/check.h"
#include "simdisk/sim_disk.h"

namespace unbroken {

/// Where 0 <= choice < count: 0 is what was durable, count - 1 what everybody saw.
class SimDisk::Choices {
 public:
  virtual ~Choices() = default;
  virtual std::size_t choose(std::size_t count) = 0;
  /// Which 512 B sectors of a torn block are new, one bit each.
  virtual std::uint8_t torn_sectors() { return 1; }
  /// What stands where new bytes were promised and never written.
  virtual char filler() { return '\0'; }
};

class SimDisk::DrawnChoices final : public Choices {
 public:
  /// `keep_ppm`: how often what everybody saw survives, besides an even choice.
  DrawnChoices(SimRandom& random, std::uint32_t keep_ppm, std::uint32_t drop_ppm)
      : random_(random), keep_ppm_(keep_ppm), drop_ppm_(drop_ppm) {}
  std::size_t choose(std::size_t count) override {
    if (random_.happens(keep_ppm_)) return count - 1;
    if (random_.happens(drop_ppm_)) return 0;
    return random_.below(count);
  }
  std::uint8_t torn_sectors() override { return static_cast<std::uint8_t>(random_.next()); }
  char filler() override { return random_.below(4) == 0 ? '\xa5' : '\0'; }

 private:
  SimRandom& random_;
  std::uint32_t keep_ppm_, drop_ppm_;
};

/// Goes through all sequences of choices, like the digits of a counter.
class SimDisk::ListedChoices final : public Choices {
 public:
  std::size_t choose(std::size_t count) override {
    if (at_ == taken_.size()) taken_.push_back({is_last_by_default_ ? count - 1 : 0, count});
    return taken_[at_++].choice;
  }
  /// False: that was the last one.
  bool advance() {
    at_ = 0;
    while (!taken_.empty() && ++taken_.back().choice == taken_.back().count) taken_.pop_back();
    return !taken_.empty();
  }
  /// All choices at one end, but for the `flipped`-th, which is at the other.
  void start(bool is_last, std::size_t flipped) {
    at_ = 0;
    is_last_by_default_ = is_last;
    if (flipped < taken_.size()) {
      const std::size_t count = taken_[flipped].count;
      taken_.resize(flipped);
      taken_.push_back({is_last ? 0 : count - 1, count});
    } else {
      taken_.clear();
    }
  }
  std::size_t count() const { return taken_.size(); }

 private:
  struct Taken {
    std::size_t choice, count;
  };
  std::vector<Taken> taken_;
  std::size_t at_ = 0;
  bool is_last_by_default_ = false;
};

/// The values a name may have, the durable one first and the present one last, each once.
std::vector<SimNodeRef> SimDisk::candidates(const SimNode::Name& name) const {
  std::vector<SimNodeRef> values{name.durable};
  for (const auto& change : name.pending) {
    if (profile == LossProfile::ordered && change.sequence < committed_) values.clear();
    std::erase(values, change.value);
    values.push_back(change.value);
  }
  return values;
}

std::string SimDisk::ordered_content_after(const SimNode& file, Choices& choices) const {
  const std::size_t count = file.dirty_blocks.size();
  const std::size_t kept = choices.choose(count + 1);
  std::string bytes = file.durable;
  if (kept == count && file.is_size_dirty) bytes.resize(file.now.size());
  for (std::size_t i = 0; i < kept; ++i) {
    const std::size_t from = std::size_t{file.dirty_blocks[i]} * kBlockBytes;
    const std::size_t end = std::min(from + kBlockBytes, file.now.size());
    if (end > bytes.size()) bytes.resize(end);
    std::memcpy(bytes.data() + from, file.now.data() + from, end - from);
  }
  return bytes;
}

std::shared_ptr<const std::string> SimDisk::content_after(const SimNode& file, Choices& choices) const {
  if (file.is_clean) {
    auto& frozen = const_cast<SimNode&>(file).frozen;
    if (!frozen) frozen = std::make_shared<const std::string>(file.now);
    return frozen;
  }
  if (profile == LossProfile::ordered) {
    return std::make_shared<const std::string>(ordered_content_after(file, choices));
  }
  std::string bytes = file.durable;
  if (file.is_size_dirty && file.now.size() != bytes.size() && choices.choose(2) == 1) {
    bytes.resize(file.now.size(), '\0');
  }
  for (const std::uint32_t block : file.dirty_blocks) {
    const std::size_t from = std::size_t{block} * kBlockBytes;
    if (from >= bytes.size()) break;
    const std::size_t end = std::min({from + kBlockBytes, bytes.size(), file.now.size()});
    if (end <= from || std::memcmp(bytes.data() + from, file.now.data() + from, end - from) == 0) continue;
    const bool can_tear = end - from > kSectorBytes;
    const std::size_t choice = choices.choose(can_tear ? 3 : 2);
    if (choice == 0) {
      const std::size_t unwritten = std::max(from, file.durable.size());
      if (unwritten < end) std::memset(bytes.data() + unwritten, choices.filler(), end - unwritten);
      continue;
    }
    const bool is_torn = can_tear && choice == 1;
    const unsigned sectors = is_torn ? choices.torn_sectors() : 0xffu;
    for (std::size_t i = 0; from + i * kSectorBytes < end; ++i) {
      if (((sectors >> i) & 1u) == 0) continue;
      const std::size_t at = from + i * kSectorBytes;
      std::memcpy(bytes.data() + at, file.now.data() + at, std::min(kSectorBytes, end - at));
    }
  }
  return std::make_shared<const std::string>(std::move(bytes));
}

void SimDisk::collect(const SimNode& directory, const std::string& path, Choices& choices, std::uint64_t cut,
                      std::map<const SimNode*, std::size_t>& seen, DiskImage& image) const {
  for (const auto& [name, entry] : directory.names) {
    SimNodeRef value = entry.durable;
    if (profile == LossProfile::ordered) {
      for (const auto& change : entry.pending) {
        if (change.sequence < cut) value = change.value;
      }
    } else if (!entry.pending.empty()) {
      std::vector<SimNodeRef> values = candidates(entry);
      if (values.size() > 1) {
        value = values[choices.choose(values.size())];
      } else {
        value = values.front();
      }
    }
    if (!value) continue;
    const std::string full = path.empty() ? name : path + "/" + name;
    if (value->is_directory) {
      image.names.emplace(full, std::nullopt);
      collect(*value, full, choices, cut, seen, image);
      continue;
    }
    const auto [at, is_new] = seen.emplace(value.get(), image.files.size());
    if (is_new) image.files.push_back(content_after(*value, choices));
    image.names.emplace(full, at->second);
  }
}

namespace {

/// Sequence numbers of all name changes that are pending below a directory, whatever its names become.
void pending_below(const SimNode& directory, std::set<const SimNode*>& seen, std::set<std::uint64_t>& out) {
  if (!seen.insert(&directory).second) return;  // a lookup, never iterated
  for (const auto& [name, entry] : directory.names) {
    if (entry.durable && entry.durable->is_directory) pending_below(*entry.durable, seen, out);
    for (const auto& change : entry.pending) {
      out.insert(change.sequence);
      if (change.value && change.value->is_directory) pending_below(*change.value, seen, out);
    }
  }
}

}  // namespace

DiskImage SimDisk::image_after(Choices& choices) const {
  DiskImage image;
  std::uint64_t cut = 0;
  if (profile == LossProfile::ordered) {
    std::set<const SimNode*> seen;
    std::set<std::uint64_t> pending;
    pending_below(*root_, seen, pending);
    pending.erase(pending.begin(), pending.lower_bound(committed_));
    const std::size_t kept = pending.empty() ? 0 : choices.choose(pending.size() + 1);
    cut = kept == 0 ? committed_ : *std::next(pending.begin(), static_cast<std::ptrdiff_t>(kept) - 1) + 1;
  }
  std::map<const SimNode*, std::size_t> seen;
  collect(*root_, "", choices, cut, seen, image);
  return image;
}

DiskImage SimDisk::durable_image() const {
  ListedChoices none;
  return image_after(none);
}

DiskImage SimDisk::image() const {
  ListedChoices all;
  all.start(true, SIZE_MAX);
  return image_after(all);
}

LossStates SimDisk::power_loss_states(std::size_t cap, SimRandom& random) const {
  LossStates states;
  std::set<Xxh128> hashes;
  const auto add = [&](DiskImage image) {
    if (hashes.insert(image.hash()).second) states.images.push_back(std::move(image));
  };
  ListedChoices listed;
  const std::size_t walks_max = cap * 4 + 16;
  for (std::size_t walk = 0; walk < walks_max && states.images.size() < cap; ++walk) {
    add(image_after(listed));
    if (!listed.advance()) {
      states.is_complete = true;
      return states;
    }
  }
  states.images.clear();
  hashes.clear();
  for (const bool is_last : {false, true}) {
    listed.start(is_last, SIZE_MAX);
    add(image_after(listed));
    const std::size_t count = listed.count();
    for (std::size_t i = 0; i < count && states.images.size() < cap; ++i) {
      listed.start(is_last, SIZE_MAX);
      static_cast<void>(image_after(listed));
      listed.start(is_last, i);
      add(image_after(listed));
    }
  }
  for (std::size_t i = 0; i < walks_max && states.images.size() < cap; ++i) {
    DrawnChoices drawn(random, i % 3 == 0 ? 700'000 : 0, i % 3 == 1 ? 700'000 : 0);
    add(image_after(drawn));
  }
  return states;
}

void SimDisk::power_loss(SimRandom& random) {
  const std::uint64_t mood = random.below(3);
  DrawnChoices drawn(random, mood == 0 ? 700'000 : 0, mood == 1 ? 700'000 : 0);
  restore(image_after(drawn));
}

void SimDisk::restore(const DiskImage& image) {
  root_->names.clear();
  root_->dirty_names.clear();
  root_->recent.clear();
  used_bytes_ = 0;
  std::vector<SimNodeRef> files;
  for (const auto& bytes : image.files) {
    SimNodeRef node = make_node(false);
    node->now = *bytes;
    node->frozen = bytes;
    used_bytes_ += bytes->size();
    files.push_back(std::move(node));
  }
  for (const auto& [path, file] : image.names) {
    const auto at = place(path, "restore");
    UNBROKEN_CHECK(at.ok());
    SimNodeRef node = file ? files[*file] : make_node(true);
    if (file) ++node->links;
    at.value().directory->names.emplace(std::string(at.value().name), SimNode::Name{node, node, {}});
  }
}

namespace {

using Nodes = std::map<std::uint64_t, SimNodeRef>;

void visit(const SimNodeRef& node, Nodes& out) {
  if (!node || !out.emplace(node->number, node).second) return;
  for (const auto& [name, entry] : node->names) {
    visit(entry.now, out);
    visit(entry.durable, out);
    for (const auto& change : entry.pending) visit(change.value, out);
  }
}

void count_links(const SimNode& directory) {
  for (const auto& [name, entry] : directory.names) {
    if (!entry.now) continue;
    if (entry.now->is_directory) count_links(*entry.now);
    ++entry.now->links;
  }
}

}  // namespace

void SimDisk::server_restart(SimRandom& random) {
  Nodes nodes;
  visit(root_, nodes);
  for (const auto& [number, node] : nodes) {
    for (const auto& at : node->dirty_names) {
      SimNode::Name& entry = at->second;
      const std::vector<SimNodeRef> values = candidates(entry);
      entry.now = entry.durable = values[random.below(values.size())];
      entry.pending.clear();
      if (!entry.now) node->names.erase(at);
    }
    node->dirty_names.clear();
  }
  std::map<std::uint64_t, std::uint32_t> links_before;
  for (const auto& [number, node] : nodes) links_before[number] = std::exchange(node->links, 0);
  count_links(*root_);
  used_bytes_ = 0;
  for (const auto& [number, node] : nodes) {
    if (node->is_directory) continue;
    if (node->links == 0 && links_before[number] > 0) node->is_stale = true;
    if (node->links > 0 || node->opens > 0) used_bytes_ += node->now.size();
  }
}

}  // namespace unbroken
