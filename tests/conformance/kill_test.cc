// A process that is killed at any named point leaves every object whole or absent, and nothing that stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "conformance/os_store.h"
#include "os/os_points.h"

namespace unbroken {
namespace {

using testing::Each;
using testing::StartsWith;

const std::string kText(10'000, 'x');

/// Says which variables there are, and nothing else.
class Drilled final : public Process {
 public:
  explicit Drilled(std::map<std::string, std::string, std::less<>> variables)
      : variables_(std::move(variables)) {}
  ProcessIdentity self() const override { return {}; }
  Liveness liveness(const ProcessIdentity&) const override { return Liveness::unknown; }
  std::vector<std::string> command_line() const override { return {}; }
  std::optional<std::string> env(std::string_view name) const override {
    const auto found = variables_.find(name);
    return found == variables_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::map<std::string, std::string, std::less<>> variables_;
};

/// The life of one object of each kind.
Result<> work(OsClient& client) {
  Store& store = client.store;
  UNBROKEN_TRY(const auto writer, store.open_writer("data/step/shard", kText.size(), client.soon()));
  writer->write(0, BufferRef::of(kText), [](Result<>) {});
  UNBROKEN_DO(writer->finish(client.soon()));
  UNBROKEN_DO(store.sync("data/step/", client.soon()));
  for (const char* key : {"journal/0", "journal/1"}) {
    UNBROKEN_TRY(const Created how, store.create(key, as_bytes(kText), client.soon()));
    if (how != Created::created) return Error(Code::bug, "somebody else was here");
    UNBROKEN_DO(store.sync("journal/", client.soon()));
  }
  return store.remove("data/step/shard", client.soon());
}

int work_in_child(const std::string& directory,
                  const std::map<std::string, std::string, std::less<>>& variables) {
  return run_in_child([&] {
    OsClient client(directory);
    if (!install_points(Drilled(variables)).ok()) return 1;
    return work(client).ok() ? 0 : 2;
  });
}

/// "POINT:PASS" for every pass of a whole run.
std::vector<std::string> passes() {
  const TemporaryDirectory directory, notes;
  EXPECT_EQ(work_in_child(directory.path(), {{"UNBROKEN_POINT_LOG", notes / "log"}}), 0);
  std::ifstream log(notes / "log");
  std::vector<std::string> found;
  std::map<std::string, int> counts;
  for (std::string name; std::getline(log, name);)
    found.push_back(name + ":" + std::to_string(++counts[name]));
  return found;
}

// failure: Lightning-AI/pytorch-lightning#688
TEST(Kill, AtAnyPointLeavesWholeObjectsAndNoDebrisThatStays) {
  const std::vector<std::string> all = passes();
  ASSERT_GE(all.size(), 12U);
  EXPECT_THAT(all, Each(StartsWith("filestore.")));
  for (const std::string& pass : all) {
    const TemporaryDirectory directory;
    const int status = work_in_child(directory.path(), {{"UNBROKEN_KILL", pass + ":kill"}});
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << pass;
    OsClient client(directory.path());
    Store& store = client.store;
    for (const char* key : {"journal/0", "journal/1"}) {
      const auto found = store.get(key, kText.size(), client.soon());
      EXPECT_TRUE(found.is(Code::not_found) || found.value() == kText) << pass << " " << key;
    }
    const auto names = store.list("journal/", client.soon()).value();
    EXPECT_LE(names.size(), 2U) << pass;
    EXPECT_LE(client.store.sweep(
                              "journal/", [](std::string_view) { return true; }, client.soon())
                  .value(),
              1U)
        << pass;
    EXPECT_EQ(client.fs->list("journal").ok() ? client.fs->list("journal").value().size() : 0, names.size())
        << pass;
    // The next life goes on in the same place.
    static_cast<void>(store.remove("data/step/shard", client.soon()).ok());
    EXPECT_TRUE(store.remove_folder("data/step/", client.soon()).ok()) << pass;
    const auto how = store.create("journal/0", as_bytes(kText), client.soon());
    EXPECT_EQ(how.value(), names.empty() ? Created::created : Created::exists) << pass;
  }
}

}  // namespace
}  // namespace unbroken
