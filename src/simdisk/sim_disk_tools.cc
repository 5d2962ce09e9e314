// What tests and checkers do to a disk besides the calls of Fs.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "simdisk/sim_disk.h"

namespace unbroken {

std::optional<std::string> SimDisk::peek(std::string_view path) const {
  const SimNodeRef node = find(path);
  if (!node || node->is_directory) return std::nullopt;
  return node->now;
}

bool SimDisk::is_durable(std::string_view path) const {
  const SimNode* at = root_.get();
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    const auto entry = at->names.find(path.substr(0, slash));
    path.remove_prefix(std::min(slash + 1, path.size()));
    if (entry == at->names.end() || !entry->second.now) return false;
    const auto values = candidates(entry->second);
    if (values.size() > 1 || values.front() != entry->second.now) return false;
    at = entry->second.now.get();
  }
  return at->is_clean;
}

void SimDisk::plant(std::string_view path, std::string bytes) {
  SimNode* at = root_.get();
  for (std::size_t slash = path.find('/'); slash != path.npos; slash = path.find('/')) {
    const std::string_view folder = path.substr(0, slash);
    if (!child(*at, folder)) set_durably(*at, folder, make_node(true));
    at = child(*at, folder).get();
    path.remove_prefix(slash + 1);
  }
  SimNodeRef node = make_node(false);
  used_bytes_ += bytes.size();
  node->now = std::move(bytes);
  set_durably(*at, path, std::move(node));
}

bool SimDisk::flip_bit(std::string_view path, std::uint64_t offset, unsigned bit) {
  const SimNodeRef node = find(path);
  if (!node || offset >= node->now.size()) return false;
  const auto flip = [&](char& c) {
    c = static_cast<char>(static_cast<unsigned char>(c) ^ (1u << (bit & 7u)));
  };
  node->frozen.reset();
  flip(node->now[offset]);
  if (!node->is_clean && offset < node->durable.size()) flip(node->durable[offset]);
  return true;
}

bool SimDisk::cut(std::string_view path, std::uint64_t bytes) {
  const SimNodeRef node = find(path);
  if (!node || bytes > node->now.size()) return false;
  node->frozen.reset();
  used_bytes_ -= node->now.size() - bytes;
  node->now.resize(bytes);
  node->is_clean = true;
  node->dirty_blocks.clear();
  node->is_size_dirty = false;
  return true;
}

bool SimDisk::destroy(std::string_view path) {
  const auto at = place(path, "destroy");
  if (!at.ok() || !child(*at.value().directory, at.value().name)) return false;
  set_durably(*at.value().directory, at.value().name, nullptr);
  return true;
}

void SimDisk::set_mode(std::string_view path, std::uint32_t mode) {
  const SimNodeRef node = find(path);
  UNBROKEN_CHECK(node != nullptr);
  node->mode = mode;
}

Result<Created> SimDisk::put(std::string_view path, std::string bytes, bool replaces) {
  UNBROKEN_DO(check_writable("put", path));
  if (bytes.size() > free_bytes()) return Error(Code::no_space, std::string(path) + ": bucket is full");
  SimNode* at = root_.get();
  for (std::size_t slash = path.find('/'); slash != path.npos; slash = path.find('/')) {
    const std::string_view folder = path.substr(0, slash);
    if (!child(*at, folder)) set_durably(*at, folder, make_node(true));
    at = child(*at, folder).get();
    path.remove_prefix(slash + 1);
  }
  if (!replaces && child(*at, path)) return Created::exists;
  SimNodeRef node = make_node(false);
  used_bytes_ += bytes.size();
  node->now = std::move(bytes);
  set_name(*at, path, std::move(node));
  return Created::created;
}

}  // namespace unbroken
