#include "snapshot/arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "base/text.h"

namespace unbroken {

void Arena::Free::operator()(std::byte* memory) const {
  ::operator delete(memory, std::align_val_t(kAlignment));
}

Result<std::shared_ptr<MutableBytes>> Arena::acquire(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  // A slot that is large enough already, else the first free one.
  std::size_t chosen = slots_.size();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].is_used) continue;
    if (chosen == slots_.size() ||
        (slots_[chosen].capacity < bytes && slots_[i].capacity > slots_[chosen].capacity))
      chosen = i;
  }
  if (chosen == slots_.size()) return std::shared_ptr<MutableBytes>();
  Slot& slot = slots_[chosen];
  if (slot.capacity < bytes) {
    slot.memory.reset();  // the old one first, so that both never stand side by side
    slot.capacity = 0;
    const std::uint64_t pages = bytes / kAlignment + (bytes % kAlignment != 0 ? 1 : 0);
    const std::uint64_t capacity = pages * kAlignment;
    if (capacity >= bytes)
      slot.memory.reset(
          static_cast<std::byte*>(::operator new(capacity, std::align_val_t(kAlignment), std::nothrow)));
    if (!slot.memory)
      return Error(Code::unavailable, fmt::format("no memory for a snapshot of {}", format_bytes(bytes)));
    slot.capacity = capacity;
  }
  slot.is_used = true;
  auto* view = new MutableBytes(slot.memory.get(), bytes);
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
  for (const Slot& slot : slots_) sum += slot.capacity;
  return sum;
}

}  // namespace unbroken
