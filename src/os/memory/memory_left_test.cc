#include "os/memory/memory_left.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "os/test_support.h"

namespace unbroken {
namespace {

class MemoryLeft : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::uint64_t left() const { return memory_left(folder_.path()); }

 private:
  TemporaryDirectory folder_;
};

TEST_F(MemoryLeft, IsThatOfTheMachine) {
  EXPECT_EQ(left(), std::numeric_limits<std::uint64_t>::max()) << "nothing to be read";
  put("/proc/meminfo", "MemTotal:       24000 kB\nMemFree:         5000 kB\nMemAvailable:    9000 kB\n");
  EXPECT_EQ(left(), 9000u * 1024);
  put("/proc/self/cgroup", "0::/\n");
  put("/sys/fs/cgroup/cgroup.procs", "1\n");
  EXPECT_EQ(left(), 9000u * 1024) << "a root has no limit";
}

TEST_F(MemoryLeft, IsThatOfTheTightestGroupAboveUs) {
  put("/proc/meminfo", "MemAvailable:    9000 kB\n");
  put("/proc/self/cgroup", "0::/job.slice/task_0\n");
  put("/sys/fs/cgroup/job.slice/task_0/memory.max", "max\n");
  put("/sys/fs/cgroup/job.slice/task_0/memory.current", "1000\n");
  put("/sys/fs/cgroup/job.slice/memory.max", "5000\n");
  put("/sys/fs/cgroup/job.slice/memory.current", "4500\n");
  put("/sys/fs/cgroup/job.slice/memory.stat", "anon 100\ninactive_file 700\nactive_file 50\n");
  EXPECT_EQ(left(), 1200u) << "500, and the cache that can go";
  put("/sys/fs/cgroup/job.slice/memory.current", "9000\n");
  EXPECT_EQ(left(), 0u) << "a limit that was lowered below what is used";
}

TEST_F(MemoryLeft, KnowsTheFirstVersionOfCgroups) {
  put("/proc/meminfo", "MemAvailable:    9000 kB\n");
  put("/proc/self/cgroup", "5:devices:/\n4:cpu,memory:/a\n0::/\n");
  put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9000\n");
  put("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "2000\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "70000\n");
  EXPECT_EQ(left(), 7000u);
}

TEST(MemoryLeftHere, IsSomething) {
  EXPECT_GT(memory_left(), std::uint64_t{1} << 20);
}

}  // namespace
}  // namespace unbroken
