#pragma once
// This process and its machine: who we are, who else is alive, what the environment says.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace unbroken {

/// Tells one life of one process from every other, as far as a machine can.
struct ProcessIdentity {
  std::string host;
  std::string boot_id;  ///< /proc/sys/kernel/random/boot_id
  std::uint64_t pid_namespace = 0;
  std::uint64_t pid = 0;
  std::uint64_t start_ticks = 0;  ///< field 22 of /proc/<pid>/stat: tells a reused pid
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

enum class Liveness : std::uint8_t { alive, dead, unknown };

class Process {
 public:
  virtual ~Process() = default;
  virtual ProcessIdentity self() const = 0;
  /// `unknown` on another boot's or namespace's identity; a zombie is dead; a stopped process is alive.
  virtual Liveness liveness(const ProcessIdentity& other) const = 0;
  /// As it was started, program first; empty where that cannot be told.
  virtual std::vector<std::string> command_line() const = 0;
  virtual std::optional<std::string> env(std::string_view name) const = 0;
  /// Copies memory of this process that another thread may give back to the system meanwhile. False where it
  /// did, or where no such copy can be made; then `into` may hold anything.
  virtual bool copy_shared(const std::byte* /*from*/, MutableBytes /*into*/) const { return false; }
};

}  // namespace unbroken
