#include "filestore/probe.h"

#include <fmt/format.h>

#include "base/ids.h"
#include "base/layout.h"

namespace unbroken {
namespace {

Error unfit(const Store& store, std::string_view why) {
  return Error(Code::unsupported,
               fmt::format("{}: {}; a journal needs a create that never replaces (link(2) or renameat2 with "
                           "RENAME_NOREPLACE): put the run directory on a file system that has one",
                           store.identity().path, why));
}

/// The answer of a first create, told from a lost one by reading back.
Result<> expect_created(Store& store, const std::string& key, const std::string& content,
                        const Deadline& by) {
  auto created = store.create(key, as_bytes(content), by);
  if (created.is(Code::unsupported)) return unfit(store, created.error().what());
  if (!created.ok()) return std::move(created).error();
  UNBROKEN_TRY(const std::string found, store.get(key, content.size(), by));
  if (created.value() == Created::exists || found != content)
    return unfit(store, "a new object was not found as it was written");
  return Done{};
}

Result<> expect_refused(Store& store, const std::string& key, const std::string& content,
                        const Deadline& by) {
  UNBROKEN_TRY(const Created again, store.create(key, as_bytes("another"), by));
  UNBROKEN_TRY(const std::string found, store.get(key, content.size(), by));
  if (found != content) return unfit(store, "a second create replaced the first");
  if (again == Created::created) return unfit(store, "a second create claimed to be the first");
  return Done{};
}

Result<> probe_once(Store& store, Random& random, const Deadline& by) {
  // Named as a temporary: what a kill leaves here counts as debris everywhere.
  const std::string content = Nonce{random.next()}.hex();
  const std::string key = fmt::format("{}{}.{}.tmp", kJournalPrefix, kProbeName, content);
  auto fit = expect_created(store, key, content, by);
  if (fit.ok()) fit = expect_refused(store, key, content, by);
  auto removed = store.remove(key, by);
  return fit.ok() ? std::move(removed) : std::move(fit);
}

}  // namespace

Result<> probe_store(Store& store, Random& random, const Deadline& by) {
  if (!store.capabilities().exclusive_create) return unfit(store, "it says that it has no exclusive create");
  // Each start sweeps once, so nobody is disturbed so often by chance.
  constexpr int kTries = 3;
  for (int tries_left = kTries;;) {
    auto fit = probe_once(store, random, by);
    const bool may_be_disturbed = fit.is(Code::not_found) || fit.is(Code::unsupported);
    if (may_be_disturbed && --tries_left > 0) continue;
    if (fit.is(Code::not_found)) return unfit(store, "a new object was gone at once");
    return fit;
  }
}

}  // namespace unbroken
