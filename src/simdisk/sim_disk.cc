#include "simdisk/sim_disk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace unbroken {
namespace {

Error fails(std::string_view call, std::string_view path, std::string_view why,
            Code code = Code::unavailable) {
  return {code, fmt::format("{} {}: {}", call, path, why)};
}

/// Takes the first segment off `rest`.
std::string_view take_segment(std::string_view& rest) {
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view segment = rest.substr(0, slash);
  rest.remove_prefix(std::min(slash + 1, rest.size()));
  return segment;
}

}  // namespace

SimDisk::SimDisk(const Clock& clock) : clock_(clock), root_(std::make_shared<SimNode>()) {
  root_->is_directory = true;
  root_->mode = 0700;
  root_->number = 1;
}

SimNodeRef SimDisk::child(const SimNode& directory, std::string_view name) {
  const auto at = directory.names.find(name);
  return at == directory.names.end() ? nullptr : at->second.now;
}

SimNodeRef SimDisk::find(std::string_view path) const {
  SimNode* at = root_.get();
  SimNodeRef found = root_;
  while (!path.empty()) {
    const std::string_view segment = take_segment(path);
    if (segment.empty() || segment == ".") continue;
    if (!at->is_directory) return nullptr;
    found = child(*at, segment);
    if (!found) return nullptr;
    at = found.get();
  }
  return found;
}

Result<SimDisk::Place> SimDisk::place(std::string_view path, std::string_view call) const {
  const std::string_view whole = path;
  SimNode* at = root_.get();
  for (;;) {
    const std::string_view segment = take_segment(path);
    if (segment.empty() || segment == "." || segment == "..") return fails(call, whole, "EINVAL");
    if (path.empty()) return Place{at, segment};
    const auto next = at->names.find(segment);
    if (next == at->names.end() || !next->second.now) return fails(call, whole, "ENOENT", Code::not_found);
    at = next->second.now.get();
    if (!at->is_directory) return fails(call, whole, "ENOTDIR", Code::bad_argument);
  }
}

SimNodeRef SimDisk::make_node(bool is_directory) {
  auto node = std::make_shared<SimNode>();
  node->number = next_number_++;
  node->is_directory = is_directory;
  node->mode = is_directory ? 0700 : 0600;
  return node;
}

void SimDisk::set_name(SimNode& directory, std::string_view name, SimNodeRef value) {
  auto at = directory.names.find(name);
  if (at == directory.names.end()) at = directory.names.emplace(std::string(name), SimNode::Name{}).first;
  SimNode::Name& entry = at->second;
  if (entry.pending.empty()) directory.dirty_names.push_back(at);
  if (stale_for > Duration::zero()) {
    const Instant now = clock_.now();
    auto& recent = directory.recent;
    if (recent.size() >= 64) recent.erase(recent.begin(), recent.begin() + 32);
    recent.push_back({now, at->first, static_cast<bool>(entry.now)});
  }
  if (entry.now && !entry.now->is_directory) {
    --entry.now->links;
    forget(*entry.now);
  }
  if (value && !value->is_directory) ++value->links;
  entry.pending.push_back({sequence_++, value});
  entry.now = std::move(value);
}

void SimDisk::set_durably(SimNode& directory, std::string_view name, SimNodeRef value) {
  set_name(directory, name, value);
  const auto at = directory.names.find(name);
  std::erase(directory.dirty_names, at);
  at->second.pending.clear();
  at->second.durable = value;
  if (!value) directory.names.erase(at);
}

/// Gives the space back once nobody can reach the file.
void SimDisk::forget(SimNode& file) {
  if (file.links == 0 && file.opens == 0)
    used_bytes_ -= std::min<std::uint64_t>(used_bytes_, file.now.size());
}

Result<> SimDisk::check_writable(std::string_view call, std::string_view path) const {
  if (is_read_only) return fails(call, path, "EROFS");
  return Done{};
}

Result<SimNodeRef> SimDisk::create_excl(std::string_view path) {
  UNBROKEN_DO(check_writable("create", path));
  UNBROKEN_TRY(const Place at, place(path, "create"));
  if (child(*at.directory, at.name)) return fails("create", path, "EEXIST");
  SimNodeRef node = make_node(false);
  set_name(*at.directory, at.name, node);
  ++node->opens;
  return node;
}

Result<SimNodeRef> SimDisk::open(std::string_view path) const {
  SimNodeRef node = find(path);
  if (!node) return fails("open", path, "ENOENT", Code::not_found);
  if (node->is_directory) return fails("open", path, "EISDIR", Code::bad_argument);
  ++node->opens;
  return node;
}

void SimDisk::close(SimNode& file) {
  UNBROKEN_CHECK(file.opens > 0);
  --file.opens;
  forget(file);
}

/// Keeps what is durable aside before `now` changes.
void SimDisk::start_change(SimNode& file) {
  file.frozen.reset();
  if (!file.is_clean) return;
  file.durable = file.now;
  file.is_clean = false;
}

void SimDisk::mark_dirty(SimNode& file, std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return;
  auto& dirty = file.dirty_blocks;
  const auto last = static_cast<std::uint32_t>((offset + bytes - 1) / kBlockBytes);
  for (auto block = static_cast<std::uint32_t>(offset / kBlockBytes); block <= last; ++block) {
    if (dirty.empty() || dirty.back() < block) {
      dirty.push_back(block);
      continue;
    }
    const auto at = std::lower_bound(dirty.begin(), dirty.end(), block);
    if (*at != block) dirty.insert(at, block);
  }
}

Result<> SimDisk::write(SimNode& file, std::uint64_t offset, Bytes data) {
  UNBROKEN_DO(check_writable("write", ""));
  const std::uint64_t end = offset + data.size();
  bool is_full = false;
  if (end > file.now.size()) {
    const std::uint64_t growth = end - file.now.size();
    if (growth > free_bytes()) {
      is_full = true;
      const std::uint64_t room_end = file.now.size() + free_bytes();
      data = data.first(room_end > offset ? static_cast<std::size_t>(room_end - offset) : 0);
      if (data.empty()) return fails("write", "", "ENOSPC", Code::no_space);
    }
  }
  start_change(file);
  if (offset + data.size() > file.now.size()) {
    // A hole before `offset` becomes zeros, which are part of the new length and not of the data.
    used_bytes_ += offset + data.size() - file.now.size();
    file.now.resize(offset + data.size());
    file.is_size_dirty = true;
  }
  if (!data.empty()) std::memcpy(file.now.data() + offset, data.data(), data.size());
  mark_dirty(file, offset, data.size());
  if (is_full) return fails("write", "", "ENOSPC", Code::no_space);
  return Done{};
}

Result<std::uint64_t> SimDisk::read(const SimNode& file, std::uint64_t offset, MutableBytes into) const {
  if (offset >= file.now.size()) return std::uint64_t{0};
  const std::size_t bytes = std::min<std::size_t>(into.size(), file.now.size() - offset);
  if (bytes > 0) std::memcpy(into.data(), file.now.data() + offset, bytes);
  return std::uint64_t{bytes};
}

void SimDisk::sync(SimNode& file) {
  if (profile == LossProfile::ordered) committed_ = sequence_;
  if (file.is_clean) return;
  if (file.has_lost) {
    if (file.is_size_dirty) file.durable.resize(file.now.size());
    for (const std::uint32_t block : file.dirty_blocks) {
      const std::size_t from = std::size_t{block} * kBlockBytes;
      if (from >= file.durable.size()) continue;
      const std::size_t bytes = std::min(kBlockBytes, file.durable.size() - from);
      std::memcpy(file.durable.data() + from, file.now.data() + from, bytes);
    }
  } else {
    file.is_clean = true;
    file.durable = {};
  }
  file.dirty_blocks.clear();
  file.is_size_dirty = false;
}

void SimDisk::fail_sync(SimNode& file) {
  if (!file.is_clean) file.has_lost = true;
  file.dirty_blocks.clear();
  file.is_size_dirty = false;
}

Result<Created> SimDisk::link(std::string_view from, std::string_view to) {
  UNBROKEN_DO(check_writable("link", to));
  SimNodeRef node = find(from);
  if (!node) return fails("link", from, "ENOENT", Code::not_found);
  if (node->is_directory) return fails("link", from, "EPERM");
  UNBROKEN_TRY(const Place at, place(to, "link"));
  if (child(*at.directory, at.name)) return Created::exists;
  set_name(*at.directory, at.name, std::move(node));
  return Created::created;
}

Result<> SimDisk::rename(std::string_view from, std::string_view to) {
  UNBROKEN_DO(check_writable("rename", to));
  UNBROKEN_TRY(const Place source, place(from, "rename"));
  UNBROKEN_TRY(const Place target, place(to, "rename"));
  const SimNodeRef node = child(*source.directory, source.name);
  if (!node) return fails("rename", from, "ENOENT", Code::not_found);
  const SimNodeRef old = child(*target.directory, target.name);
  if (old == node) return Done{};
  if (old && old->is_directory) return fails("rename", to, "EISDIR", Code::bad_argument);
  if (node->is_directory && to.starts_with(from)) return fails("rename", to, "EINVAL");
  set_name(*target.directory, target.name, node);
  set_name(*source.directory, source.name, nullptr);
  return Done{};
}

Result<> SimDisk::unlink(std::string_view path) {
  UNBROKEN_DO(check_writable("unlink", path));
  UNBROKEN_TRY(const Place at, place(path, "unlink"));
  const SimNodeRef node = child(*at.directory, at.name);
  if (!node) return fails("unlink", path, "ENOENT", Code::not_found);
  if (node->is_directory) return fails("unlink", path, "EISDIR", Code::bad_argument);
  set_name(*at.directory, at.name, nullptr);
  return Done{};
}

Result<Created> SimDisk::make_dir(std::string_view path) {
  UNBROKEN_DO(check_writable("mkdir", path));
  UNBROKEN_TRY(const Place at, place(path, "mkdir"));
  if (child(*at.directory, at.name)) return Created::exists;
  set_name(*at.directory, at.name, make_node(true));
  return Created::created;
}

Result<> SimDisk::remove_dir(std::string_view path) {
  UNBROKEN_DO(check_writable("rmdir", path));
  UNBROKEN_TRY(const Place at, place(path, "rmdir"));
  const SimNodeRef node = child(*at.directory, at.name);
  if (!node) return fails("rmdir", path, "ENOENT", Code::not_found);
  if (!node->is_directory) return fails("rmdir", path, "ENOTDIR", Code::bad_argument);
  for (const auto& [name, entry] : node->names) {
    if (entry.now) return fails("rmdir", path, "ENOTEMPTY");
  }
  set_name(*at.directory, at.name, nullptr);
  return Done{};
}

Result<> SimDisk::sync_dir(std::string_view path) {
  const SimNodeRef node = find(path);
  if (!node) return fails("fsync", path, "ENOENT", Code::not_found);
  if (!node->is_directory) return fails("fsync", path, "ENOTDIR", Code::bad_argument);
  if (profile == LossProfile::ordered) committed_ = sequence_;
  for (const auto& at : node->dirty_names) {
    SimNode::Name& entry = at->second;
    entry.pending.clear();
    entry.durable = entry.now;
    if (!entry.now) node->names.erase(at);
  }
  node->dirty_names.clear();
  return Done{};
}

Result<std::vector<std::string>> SimDisk::list(std::string_view path, SimRandom* stale) const {
  const SimNodeRef node = find(path);
  if (!node) return fails("list", path, "ENOENT", Code::not_found);
  if (!node->is_directory) return fails("list", path, "ENOTDIR", Code::bad_argument);
  std::vector<std::string> names;
  names.reserve(node->names.size());
  for (const auto& [name, entry] : node->names) {
    if (entry.now) names.push_back(name);
  }
  if (stale == nullptr) return names;
  for (auto change = node->recent.rbegin(); change != node->recent.rend(); ++change) {
    if (change->at + stale_for < clock_.now()) break;
    if (stale->below(2) == 0) continue;
    const auto at = std::lower_bound(names.begin(), names.end(), change->name);
    const bool is_there = at != names.end() && *at == change->name;
    if (is_there && !change->was_there) names.erase(at);
    if (!is_there && change->was_there) names.insert(at, change->name);
  }
  return names;
}

Result<FileInfo> SimDisk::info(std::string_view path) const {
  const SimNodeRef node = find(path);
  if (!node) return fails("stat", path, "ENOENT", Code::not_found);
  return FileInfo{.bytes = node->now.size(),
                  .links = node->is_directory ? 2 : node->links,
                  .mode = node->mode,
                  .owner = node->owner,
                  .is_directory = node->is_directory,
                  .device = 1,
                  .inode = node->number};
}

Result<> SimDisk::append(std::string_view path, Bytes data) {
  UNBROKEN_DO(check_writable("append", path));
  SimNodeRef node = find(path);
  if (node && node->is_directory) return fails("append", path, "EISDIR", Code::bad_argument);
  if (!node) {
    UNBROKEN_TRY(const Place at, place(path, "append"));
    node = make_node(false);
    set_name(*at.directory, at.name, node);
  }
  return write(*node, node->now.size(), data);
}

}  // namespace unbroken
