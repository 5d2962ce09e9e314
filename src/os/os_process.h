#pragma once
// This process and its neighbours, from /proc.
#include "world/process.h"

namespace unbroken {

class OsProcess final : public Process {
 public:
  ProcessIdentity self() const override;
  Liveness liveness(const ProcessIdentity& other) const override;
  std::vector<std::string> command_line() const override;
  std::optional<std::string> env(std::string_view name) const override;
  bool copy_shared(const std::byte* from, MutableBytes into) const override;
};

}  // namespace unbroken
