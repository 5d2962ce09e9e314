#include "os/machine/near_processors.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "base/text.h"

namespace unbroken {
namespace {

namespace files = std::filesystem;

constexpr std::size_t kInterruptsMax = 4;  // of one queue: virtio-scsi has three beside it
constexpr std::uint64_t kShare = 8;  // an interrupt with less than this part of the most carries no data

std::string line_of(const files::path& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

/// "0-2,5" -> 0 1 2 5.
std::vector<unsigned> processors_of(std::string_view list) {
  std::vector<unsigned> out;
  for (const std::string_view range : split(list, ',')) {
    const auto ends = split(range, '-');
    const auto first = parse_u64(ends.front()), last = parse_u64(ends.back());
    if (!first.ok() || !last.ok() || last.value() >= CPU_SETSIZE) return {};
    for (std::uint64_t i = first.value(); i <= last.value(); ++i) out.push_back(static_cast<unsigned>(i));
  }
  return out;
}

/// The folder of the numbers of a disk's interrupts. A partition lies in its disk, and that in what has them.
files::path interrupts_of(std::uint64_t device, const files::path& root) {
  std::error_code failed, is_none;
  const std::string number = fmt::format("{}:{}", major(device), minor(device));
  for (files::path at = files::canonical(root / "sys/dev/block" / number, failed);
       !failed && at.has_relative_path(); at = at.parent_path())
    if (files::is_directory(at / "msi_irqs", is_none)) return at / "msi_irqs";
  return {};
}

std::uint64_t count_of(const std::string& interrupt, const files::path& root) {
  std::uint64_t sum = 0;
  const std::string counts = line_of(root / "sys/kernel/irq" / interrupt / "per_cpu_count");
  for (const std::string_view count : split(counts, ','))
    sum += parse_u64(count).ok() ? parse_u64(count).value() : 0;
  return sum;
}

/// The interrupt of the only queue.
std::optional<std::string> only_interrupt(std::uint64_t device, const files::path& root) {
  const files::path folder = interrupts_of(device, root);
  std::error_code failed;
  std::uint64_t most = 0, second = 0;
  std::string busiest;
  std::size_t found = 0;
  for (files::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    if (++found > kInterruptsMax) return std::nullopt;
    const std::string interrupt = at->path().filename().string();
    const std::uint64_t count = count_of(interrupt, root);
    second = std::max(second, std::min(count, most));
    if (count > most) busiest = interrupt;
    most = std::max(most, count);
  }
  if (failed || most == 0 || second > most / kShare) return std::nullopt;
  return busiest;
}

}  // namespace

std::vector<unsigned> near_processors(std::uint64_t device, const std::string& root) {
  const auto interrupt = only_interrupt(device, root);
  cpu_set_t allowed;
  if (!interrupt || ::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return {};
  std::vector<unsigned> near =
      processors_of(line_of(files::path(root) / "proc/irq" / *interrupt / "effective_affinity_list"));
  std::erase_if(near, [&](unsigned processor) { return !CPU_ISSET(processor, &allowed); });
  if (near.size() == static_cast<std::size_t>(CPU_COUNT(&allowed))) near.clear();
  return near;
}

}  // namespace unbroken
