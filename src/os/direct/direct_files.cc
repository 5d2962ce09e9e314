#include "os/direct/direct_files.h"

#include <utility>

namespace unbroken {

void DirectFiles::add(int file, Descriptor direct) {
  const std::lock_guard lock(mutex_);
  direct_.insert_or_assign(file, std::move(direct));
}

void DirectFiles::remove(int file) {
  const std::lock_guard lock(mutex_);
  direct_.erase(file);
}

OpenFile DirectFiles::of(int file) const {
  const std::lock_guard lock(mutex_);
  const auto it = direct_.find(file);
  return {file, it == direct_.end() ? -1 : it->second.get()};
}

}  // namespace unbroken
