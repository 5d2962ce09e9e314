#include "snapshot/arena.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace unbroken {

Result<std::shared_ptr<MutableBytes>> Arena::acquire(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  // A slot that is large enough already, else the first free one.
  std::size_t chosen = slots_.size();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].is_used) continue;
    if (chosen == slots_.size() ||
        (slots_[chosen].memory.size() < bytes && slots_[i].memory.size() > slots_[chosen].memory.size()))
      chosen = i;
  }
  if (chosen == slots_.size()) return std::shared_ptr<MutableBytes>();
  Slot& slot = slots_[chosen];
  if (slot.memory.size() < bytes) {
    slot.memory = {};  // the old one first, so that both never stand side by side
    slot.memory = Pages::make(bytes);
    if (!slot.memory)
      return Error(Code::unavailable, fmt::format("no memory for a snapshot of {}", format_bytes(bytes)));
  }
  slot.is_used = true;
  auto* view = new MutableBytes(slot.memory.data(), bytes);
  return std::shared_ptr<MutableBytes>(view, [arena = shared_from_this(), chosen](MutableBytes* mine) {
    delete mine;
    arena->release(chosen);
  });
}

void Arena::release(std::size_t slot) {
  const std::lock_guard lock(mutex_);
  slots_[slot].is_used = false;
}

bool Arena::has_free_slot() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.is_used; });
}

std::uint64_t Arena::bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const Slot& slot : slots_) sum += slot.memory.size();
  return sum;
}

}  // namespace unbroken
