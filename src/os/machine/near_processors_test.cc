#include "os/machine/near_processors.h"

#include <gmock/gmock.h>
#include <sched.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "os/test_support.h"

namespace unbroken {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A tree as the kernel shows it, with one disk 254:0 and its partition 254:1.
class NearProcessors : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(root_ / (kDisk + "/vda1"));
    std::filesystem::create_directories(root_ / "sys/dev/block");
    std::filesystem::create_symlink("../../../" + kDisk, root_ / "sys/dev/block/254:0");
    std::filesystem::create_symlink("../../../" + kDisk + "/vda1", root_ / "sys/dev/block/254:1");
    cpu_set_t allowed;
    ASSERT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    for (unsigned i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &allowed)) processors_.push_back(i);
  }
  void add_interrupt(const std::string& number, const std::string& counts, const std::string& processors) {
    put("sys/devices/pci0/0000:00:02.0/msi_irqs/" + number, "msix");
    put("sys/kernel/irq/" + number + "/per_cpu_count", counts);
    put("proc/irq/" + number + "/effective_affinity_list", processors);
  }
  void put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ / path).parent_path());
    std::ofstream(root_ / path) << text << '\n';
  }
  std::vector<unsigned> near(unsigned partition = 0) {
    return near_processors(makedev(254, partition), root_.path());
  }
  std::string last() const { return std::to_string(processors_.back()); }

  static inline const std::string kDisk = "sys/devices/pci0/0000:00:02.0/virtio1/block/vda";
  TemporaryDirectory root_;
  std::vector<unsigned> processors_;
};

TEST_F(NearProcessors, AreThoseThatTheOnlyQueueTells) {
  if (processors_.size() < 2) GTEST_SKIP() << "one processor is near everything";
  add_interrupt("35", "1,0", std::to_string(processors_.front()));
  add_interrupt("36", "12,20344782", last());
  EXPECT_THAT(near(), ElementsAre(processors_.back()));
  EXPECT_THAT(near(1), ElementsAre(processors_.back())) << "of a partition";
}

TEST_F(NearProcessors, AreNotChosenAmongSeveralQueues) {
  add_interrupt("36", "1000,0", std::to_string(processors_.front()));
  add_interrupt("37", "0,900", last());
  EXPECT_THAT(near(), IsEmpty());
}

TEST_F(NearProcessors, AreNotKnownWithoutInterruptsOrBesideThoseWeMayUse) {
  EXPECT_THAT(near(), IsEmpty());
  EXPECT_THAT(near_processors(makedev(0, 27), root_.path()), IsEmpty()) << "no disk";
  EXPECT_THAT(near_processors(makedev(254, 0), root_ / "nothing"), IsEmpty());
  add_interrupt("36", "5000", std::to_string(CPU_SETSIZE - 1));
  EXPECT_THAT(near(), IsEmpty());
  for (const char* const strange : {"", "x", "3-", "99999999999999999999", "-"}) {
    put("proc/irq/36/effective_affinity_list", strange);
    EXPECT_THAT(near(), IsEmpty()) << strange;
  }
}

TEST_F(NearProcessors, AreEmptyWhereThatIsAll) {
  std::string all;
  for (const unsigned processor : processors_) all += (all.empty() ? "" : ",") + std::to_string(processor);
  add_interrupt("36", "5000", all);
  EXPECT_THAT(near(), IsEmpty());
}

}  // namespace
}  // namespace unbroken
