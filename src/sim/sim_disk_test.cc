#include "simdisk/sim_disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "sim/sim_fs.h"
#include "sim/sim_world.h"

namespace unbroken {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Disk : testing::Test {
  SimWorld world;
  SimDisk& disk = world.disk();
  Fs& fs = world.observer();
  SimRandom random{1, "test"};

  /// Creates and fills a file; synced unless told otherwise. Its name is not.
  void make(std::string_view path, std::string bytes, bool is_synced = true) {
    const FileId file = fs.create_excl(path).value();
    Result<> wrote = Done{};
    fs.write_at(file, 0, BufferRef::of(std::move(bytes)), [&](Result<> r) { wrote = std::move(r); });
    ASSERT_TRUE(wrote.ok());
    ASSERT_TRUE(!is_synced || fs.sync(file).ok());
    ASSERT_TRUE(fs.close(file).ok());
  }
  LossStates states(std::size_t cap = 4096) {
    LossStates all = disk.power_loss_states(cap, random);
    std::set<Xxh128> hashes;
    for (const DiskImage& image : all.images) EXPECT_TRUE(hashes.insert(image.hash()).second);
    return all;
  }
  /// What stands at `path` in all the images: bytes, or "-" where there is no such file.
  std::set<std::string> outcomes(std::string_view path) {
    std::set<std::string> seen;
    const LossStates all = states();
    EXPECT_TRUE(all.is_complete);
    for (const DiskImage& image : all.images) {
      const std::string* const bytes = image.file(path);
      seen.insert(bytes ? *bytes : "-");
    }
    return seen;
  }
};

TEST_F(Disk, KeepsBytesAndNames) {
  ASSERT_TRUE(fs.make_dir("a").ok());
  EXPECT_EQ(fs.make_dir("a").value(), Created::exists);
  make("a/file", "hello");
  EXPECT_EQ(disk.peek("a/file"), "hello");
  EXPECT_EQ(fs.list("a").value(), std::vector<std::string>{"file"});
  EXPECT_EQ(fs.list("").value(), std::vector<std::string>{"a"});
  EXPECT_TRUE(fs.list("b").is(Code::not_found));
  EXPECT_TRUE(fs.open_read("a/none").is(Code::not_found));
  EXPECT_TRUE(fs.create_excl("a/file").is(Code::unavailable));
  EXPECT_TRUE(fs.create_excl("none/file").is(Code::not_found));
  EXPECT_TRUE(fs.remove_dir("a").is(Code::unavailable));
  ASSERT_TRUE(fs.unlink("a/file").ok());
  EXPECT_TRUE(fs.unlink("a/file").is(Code::not_found));
  EXPECT_TRUE(fs.remove_dir("a").ok());
}

TEST_F(Disk, LinkNeverReplacesAndRenameDoes) {
  make("one", "1");
  make("two", "2");
  EXPECT_EQ(fs.link("one", "two").value(), Created::exists);
  EXPECT_EQ(disk.peek("two"), "2");
  EXPECT_EQ(fs.link("one", "three").value(), Created::created);
  EXPECT_EQ(fs.info("one").value().links, 2u);
  EXPECT_EQ(fs.info("three").value().inode, fs.info("one").value().inode);
  EXPECT_TRUE(fs.rename("one", "two").ok());
  EXPECT_EQ(disk.peek("two"), "1");
  EXPECT_FALSE(disk.exists("one"));
  EXPECT_EQ(fs.info("three").value().links, 2u);
}

TEST_F(Disk, UnlinkedFileLivesWhileItIsOpen) {
  make("file", "bytes");
  const FileId file = fs.open_read("file").value();
  ASSERT_TRUE(fs.unlink("file").ok());
  std::string into(5, ' ');
  EXPECT_EQ(fs.read_at(file, 0, std::as_writable_bytes(std::span(into))).value(), 5u);
  EXPECT_EQ(into, "bytes");
  const std::uint64_t before = fs.free_bytes().value();
  ASSERT_TRUE(fs.close(file).ok());
  EXPECT_EQ(fs.free_bytes().value(), before + 5);
}

TEST_F(Disk, FullDiskTakesThePartThatFits) {
  disk.capacity_bytes = 10;
  const FileId file = fs.create_excl("file").value();
  Result<> wrote = Done{};
  const auto done = [&](Result<> r) { wrote = std::move(r); };
  fs.write_at(file, 0, BufferRef::of("1234567"), done);
  EXPECT_TRUE(wrote.ok());
  fs.write_at(file, 7, BufferRef::of("89abcd"), done);
  EXPECT_TRUE(wrote.is(Code::no_space));
  EXPECT_EQ(disk.peek("file"), "123456789a");
  EXPECT_EQ(fs.free_bytes().value(), 0u);
  fs.write_at(file, 0, BufferRef::of("over"), done);
  EXPECT_TRUE(wrote.ok());
  ASSERT_TRUE(fs.close(file).ok());
  ASSERT_TRUE(fs.unlink("file").ok());
  EXPECT_EQ(fs.free_bytes().value(), 10u);
}

TEST_F(Disk, UnsyncedBytesMayBeThereOrNotOrOnlyTheirLength) {
  ASSERT_TRUE(fs.sync_dir("").ok());
  make("file", "new", false);
  ASSERT_TRUE(fs.sync_dir("").ok());
  EXPECT_EQ(outcomes("file"), (std::set<std::string>{"", "new", std::string(3, '\0')}));
}

TEST_F(Disk, SyncedFileLosesOnlyItsName) {
  make("file", "new");
  EXPECT_EQ(outcomes("file"), (std::set<std::string>{"-", "new"}));
  ASSERT_TRUE(fs.sync_dir("").ok());
  EXPECT_EQ(outcomes("file"), std::set<std::string>{"new"});
  EXPECT_TRUE(disk.is_durable("file"));
}

TEST_F(Disk, FolderWhoseNameIsLostTakesItsFilesAlong) {
  ASSERT_TRUE(fs.make_dir("a").ok());
  make("a/file", "x");
  ASSERT_TRUE(fs.sync_dir("a").ok());
  EXPECT_FALSE(disk.is_durable("a/file"));
  EXPECT_EQ(outcomes("a/file"), (std::set<std::string>{"-", "x"}));
  ASSERT_TRUE(fs.sync_dir("").ok());
  EXPECT_EQ(outcomes("a/file"), std::set<std::string>{"x"});
}

TEST_F(Disk, UnlinkAndRenameComeUndone) {
  make("old", "1");
  make("file", "2");
  ASSERT_TRUE(fs.sync_dir("").ok());
  ASSERT_TRUE(fs.rename("file", "old").ok());
  EXPECT_EQ(outcomes("old"), (std::set<std::string>{"1", "2"}));
  ASSERT_TRUE(fs.unlink("old").ok());
  EXPECT_EQ(outcomes("old"), (std::set<std::string>{"-", "1", "2"}));
  EXPECT_EQ(outcomes("file"), (std::set<std::string>{"-", "2"}));
}

TEST_F(Disk, BlocksSurviveOneByOneAndTear) {
  make("file", std::string(3 * 4096, 'a'));
  ASSERT_TRUE(fs.sync_dir("").ok());
  const FileId file = fs.open_read("file").value();
  ASSERT_TRUE(fs.close(file).ok());
  ASSERT_TRUE(fs.append("file", as_bytes(std::string(4096, 'b'))).ok());
  // The new block: no length; length and old (zeros), torn, or new bytes.
  EXPECT_EQ(outcomes("file").size(), 4u);
  ASSERT_TRUE(fs.append("file", as_bytes(std::string(4096, 'c'))).ok());
  EXPECT_EQ(outcomes("file").size(), 1u + 3 * 3);
}

TEST_F(Disk, DroppedLossLeavesWhatIsDurable) {
  make("kept", "1");
  ASSERT_TRUE(fs.sync_dir("").ok());
  make("lost", "2");
  EXPECT_EQ(disk.durable_image().names.size(), 1u);
  EXPECT_EQ(disk.image().names.size(), 2u);
  for (int i = 0; i < 20; ++i) {
    disk.power_loss(random);
    EXPECT_EQ(disk.peek("kept"), "1");
  }
}

TEST_F(Disk, RandomLossFindsEveryOutcomeOfASmallFile) {
  make("file", "x", false);
  const DiskImage before = disk.image();
  std::set<std::string> seen;
  for (int i = 0; i < 200; ++i) {
    disk.power_loss(random);
    seen.insert(disk.peek("file").value_or("-"));
    disk.restore({});
    make("file", "x", false);
  }
  EXPECT_TRUE(seen.contains("-"));
  EXPECT_TRUE(seen.contains(""));
  EXPECT_TRUE(seen.contains("x"));
}

TEST_F(Disk, FailedSyncLosesItsPagesForGood) {
  make("file", "old");
  ASSERT_TRUE(fs.sync_dir("").ok());
  const FileId file = fs.create_excl("new").value();
  fs.write_at(file, 0, BufferRef::of("x"), [](Result<> r) { EXPECT_TRUE(r.ok()); });
  const SimNodeRef node = disk.open("new").value();
  disk.fail_sync(*node);
  disk.close(*node);
  ASSERT_TRUE(fs.sync(file).ok());  // the second one says ok
  ASSERT_TRUE(fs.close(file).ok());
  ASSERT_TRUE(fs.sync_dir("").ok());
  EXPECT_EQ(disk.peek("new"), "x");
  EXPECT_EQ(outcomes("new"), std::set<std::string>{""});
  EXPECT_FALSE(disk.is_durable("new"));
}

TEST_F(Disk, OrderedProfileKeepsAPrefixOfTheNames) {
  disk.profile = LossProfile::ordered;
  make("a", "1", false);
  make("b", "2", false);
  make("c", "3", false);
  ASSERT_TRUE(fs.unlink("a").ok());
  std::set<std::string> seen;
  for (const DiskImage& image : states().images) {
    std::string names;
    for (const auto& [name, file] : image.names) names += name;
    seen.insert(names);
  }
  EXPECT_EQ(seen, (std::set<std::string>{"", "a", "ab", "abc", "bc"}));
  const FileId file = fs.open_read("b").value();
  ASSERT_TRUE(fs.sync(file).ok());  // takes all earlier names along
  ASSERT_TRUE(fs.close(file).ok());
  EXPECT_EQ(outcomes("a"), std::set<std::string>{"-"});
  EXPECT_EQ(outcomes("b"), std::set<std::string>{"2"});
}

TEST_F(Disk, TooManyStatesAreSampledWithTheExtremes) {
  for (int i = 0; i < 12; ++i) make(std::string(1, static_cast<char>('a' + i)), "x", false);
  const LossStates some = states(100);
  EXPECT_FALSE(some.is_complete);
  EXPECT_EQ(some.images.size(), 100u);
  std::set<std::size_t> counts;
  for (const DiskImage& image : some.images) counts.insert(image.names.size());
  EXPECT_TRUE(counts.contains(0));
  EXPECT_TRUE(counts.contains(12));
  EXPECT_TRUE(counts.contains(11));
}

TEST_F(Disk, ImageAndRestoreKeepHardLinks) {
  ASSERT_TRUE(fs.make_dir("a").ok());
  make("a/one", "1");
  ASSERT_EQ(fs.link("a/one", "a/two").value(), Created::created);
  const DiskImage image = disk.image();
  SimWorld second;
  second.disk().restore(image);
  EXPECT_EQ(second.observer().info("a/one").value().links, 2u);
  EXPECT_EQ(second.disk().peek("a/two"), "1");
  EXPECT_EQ(second.disk().image().hash(), image.hash());
  EXPECT_TRUE(second.disk().is_durable("a/two"));
  ASSERT_TRUE(fs.unlink("a/two").ok());
  make("a/two", "1");
  EXPECT_NE(disk.image().hash(), image.hash());
}

TEST_F(Disk, ServerRestartDropsNamesUnderLivingClients) {
  std::set<bool> seen;
  for (int i = 0; i < 20; ++i) {
    disk.restore({});
    const FileId file = fs.create_excl("file").value();
    world.server_restart();
    seen.insert(disk.exists("file"));
    EXPECT_EQ(fs.size(file).ok(), disk.exists("file"));
    ASSERT_TRUE(fs.close(file).ok() || !disk.exists("file"));
  }
  EXPECT_EQ(seen.size(), 2u);
}

TEST_F(Disk, StaleListErrsOnlyAboutRecentChanges) {
  make("old", "");
  bool is_ever_short = false, is_ever_long = false;
  disk.stale_for = std::chrono::seconds(1);
  ASSERT_EQ(world.run().why, SimEnd::Why::all_over);
  world.scheduler().advance(std::chrono::seconds(5));
  make("new", "");
  make("gone", "");
  ASSERT_TRUE(fs.unlink("gone").ok());
  for (int i = 0; i < 100; ++i) {
    const auto names = disk.list("", &random).value();
    EXPECT_THAT(names, testing::Contains("old"));
    is_ever_short = is_ever_short || std::ranges::count(names, "new") == 0;
    is_ever_long = is_ever_long || std::ranges::count(names, "gone") == 1;
  }
  EXPECT_TRUE(is_ever_short);
  EXPECT_TRUE(is_ever_long);
  world.scheduler().advance(std::chrono::seconds(5));
  EXPECT_THAT(disk.list("", &random).value(), ElementsAre("new", "old"));
}

TEST_F(Disk, ToolsDamageAtRest) {
  disk.plant("a/b/file", "abc");
  EXPECT_TRUE(disk.is_durable("a/b/file"));
  ASSERT_TRUE(disk.flip_bit("a/b/file", 1, 0));
  EXPECT_EQ(disk.peek("a/b/file"), "acc");
  EXPECT_FALSE(disk.flip_bit("a/b/file", 3));
  ASSERT_TRUE(disk.cut("a/b/file", 1));
  EXPECT_EQ(outcomes("a/b/file"), std::set<std::string>{"a"});
  disk.plant("a/b/file", "again");
  EXPECT_EQ(disk.peek("a/b/file"), "again");
  ASSERT_TRUE(disk.destroy("a"));
  EXPECT_THAT(states().images.front().names, IsEmpty());
}

}  // namespace
}  // namespace unbroken
