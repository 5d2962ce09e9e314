#include "os/os_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "base/text.h"
#include "os/descriptor.h"

namespace unbroken {
namespace {

constexpr std::size_t kProcBytesMax = 65536;

/// The beginning of a file of /proc; nothing where it cannot be read.
std::optional<std::string> read_proc(const std::string& path) {
  const auto file = adopt(::open(path.c_str(), O_RDONLY | O_CLOEXEC), "open", path);
  if (!file.ok()) return std::nullopt;
  std::string out;
  std::array<char, 4096> room{};
  while (out.size() < kProcBytesMax) {
    const ssize_t count = ::read(file.value().get(), room.data(), room.size());
    if (count < 0) return std::nullopt;
    if (count == 0) break;
    out.append(room.data(), static_cast<std::size_t>(count));
  }
  return out;
}

struct ProcessState {
  char state = '?';
  std::uint64_t threads = 0;
  std::uint64_t start_ticks = 0;
};

/// proc_pid_stat(5). The second field, the name, is in brackets and may hold anything.
std::optional<ProcessState> read_state(std::string_view pid) {
  const auto text = read_proc(fmt::format("/proc/{}/stat", pid));
  if (!text) return std::nullopt;
  const std::size_t bracket = text->rfind(')');
  if (bracket == std::string::npos || bracket + 2 >= text->size()) return std::nullopt;
  // From field 3 on, so field n is at n - 3.
  const auto fields = split(std::string_view(*text).substr(bracket + 2), ' ');
  if (fields.size() < 20 || fields[0].size() != 1) return std::nullopt;
  const auto threads = parse_u64(fields[20 - 3]), start = parse_u64(fields[22 - 3]);
  if (!threads.ok() || !start.ok()) return std::nullopt;
  return ProcessState{.state = fields[0][0], .threads = threads.value(), .start_ticks = start.value()};
}

std::string boot_id() {
  std::string text = read_proc("/proc/sys/kernel/random/boot_id").value_or("");
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::uint64_t pid_namespace() {
  struct stat status{};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

std::string host_name() {
  std::array<char, 256> room{};
  return ::gethostname(room.data(), room.size() - 1) == 0 ? std::string(room.data()) : std::string();
}

}  // namespace

ProcessIdentity OsProcess::self() const {
  const auto state = read_state("self");
  return {.host = host_name(),
          .boot_id = boot_id(),
          .pid_namespace = pid_namespace(),
          .pid = static_cast<std::uint64_t>(::getpid()),
          .start_ticks = state ? state->start_ticks : 0};
}

Liveness OsProcess::liveness(const ProcessIdentity& other) const {
  const std::string boot = boot_id();
  const std::uint64_t here = pid_namespace();
  if (boot.empty() || here == 0 || boot != other.boot_id || here != other.pid_namespace || other.pid == 0)
    return Liveness::unknown;
  const auto state = read_state(fmt::format("{}", other.pid));
  if (!state) {
    // /proc may hide the processes of other users; a signal still tells whether there is one.
    const bool is_gone = ::kill(static_cast<pid_t>(other.pid), 0) != 0 && errno == ESRCH;
    return is_gone ? Liveness::dead : Liveness::unknown;
  }
  if (state->start_ticks != other.start_ticks) return Liveness::dead;  // the number was given out again
  const bool has_ended = state->state == 'Z' || state->state == 'X' || state->state == 'x';
  // A first thread that has ended before the others looks like a zombie.
  return has_ended && state->threads <= 1 ? Liveness::dead : Liveness::alive;
}

std::vector<std::string> OsProcess::command_line() const {
  // Each word ends in a zero byte; one that was cut off here is left as it is.
  std::string text = read_proc("/proc/self/cmdline").value_or("");
  if (text.ends_with('\0')) text.pop_back();
  std::vector<std::string> out;
  if (!text.empty())
    for (const std::string_view word : split(text, '\0')) out.emplace_back(word);
  return out;
}

std::optional<std::string> OsProcess::env(std::string_view name) const {
  const char* const value = ::getenv(std::string(name).c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

bool OsProcess::copy_shared(const std::byte* from, MutableBytes into) const {
  // The kernel answers EFAULT where a load of ours would be a SIGSEGV (process_vm_readv(2)).
  while (!into.empty()) {
    const iovec here{into.data(), into.size()};
    const iovec there{const_cast<std::byte*>(from), into.size()};
    const ssize_t moved = ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0);
    if (moved <= 0) return false;
    from += moved;
    into = into.subspan(static_cast<std::size_t>(moved));
  }
  return true;
}

}  // namespace unbroken
