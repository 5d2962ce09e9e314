#include "cli/drill/final_state.h"

#include <fmt/format.h>

#include "base/digest.h"
#include "cli/exchange/foreign_state.h"
#include "state/tree.h"

namespace unbroken {

namespace {

constexpr std::size_t kShortValue = 64;

std::string without_directory(std::string text, const std::string& directory) {
  for (std::size_t at = text.find(directory); at != std::string::npos; at = text.find(directory, at))
    text.replace(at, directory.size(), "{dir}");
  return text.size() <= kShortValue ? text : xxh128(as_bytes(text)).hex();
}

Result<TapStep> digests_of(const ForeignState& foreign, const std::string& directory) {
  TapStep out;
  const ForeignFiles files = foreign.sources();
  UNBROKEN_DO(verify_checksums(foreign.plan, files, [](std::uint64_t) {}));
  for (const ImportedTensor& tensor : foreign.plan.tensors) {
    XxhStream sum;
    UNBROKEN_DO(feed_tensor(foreign.plan, tensor, files, [&](Bytes bytes) -> Result<> {
      sum.update(bytes);
      return Done{};
    }));
    out.tensors[tensor.name] = fmt::format("{} {}", describe(tensor.dtype, tensor.shape), sum.digest().hex());
  }
  for (const Alias& alias : foreign.plan.aliases)
    if (const auto same = out.tensors.find(alias.of); same != out.tensors.end())
      out.tensors[alias.name] = same->second;
  for (Leaf& leaf : flatten(foreign.plan.tree))
    if (!leaf.is_tensor) out.values[leaf.name] = without_directory(std::move(leaf.value), directory);
  return out;
}

}  // namespace

Result<TapStep> read_final_state(const std::string& path, const std::string& directory) {
  auto foreign = read_foreign_state(path);
  if (!foreign.ok()) return about_file(std::move(foreign).error(), path);
  auto fine = foreign.value().check();
  if (!fine.ok()) return about_file(std::move(fine).error(), path);
  auto out = digests_of(foreign.value(), directory);
  if (!out.ok()) return about_file(std::move(out).error(), path);
  return out;
}

}  // namespace unbroken
