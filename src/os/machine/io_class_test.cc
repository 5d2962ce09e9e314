#include "os/machine/io_class.h"

#include <gtest/gtest.h>
#include <linux/ioprio.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace unbroken {
namespace {

long now() {
  return ::syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);
}

TEST(IoClass, IsThatOfTheThreadUntilItIsDropped) {
  const long before = now();
  for (const auto& [wanted, is] : {std::pair{IoClass::low, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 7)},
                                   std::pair{IoClass::idle, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0)}}) {
    const auto made = give_way(wanted);
    if (!made.ok()) GTEST_SKIP() << made.error().what();
    EXPECT_EQ(now(), before);
    {
      const auto turn = made.value()();
      EXPECT_EQ(now(), is);
    }
    EXPECT_EQ(now(), before);
  }
}

TEST(IoClass, OfNormalIsNone) {
  EXPECT_FALSE(give_way(IoClass::normal).value());
}

}  // namespace
}  // namespace unbroken
