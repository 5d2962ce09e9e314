#include "os/machine/io_class.h"

#include <linux/ioprio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "os/errno.h"

namespace unbroken {
namespace {

constexpr int kThisThread = 0;

int io_priority() {
  return static_cast<int>(::syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, kThisThread));
}

bool set_io_priority(int priority) {
  return ::syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, kThisThread, priority) == 0;
}

/// The class of this thread, put back at the end. Where it is refused nothing changes.
class Turn {
 public:
  explicit Turn(int priority)
      : before_(io_priority()), is_taken_(before_ >= 0 && set_io_priority(priority)) {}
  ~Turn() {
    if (is_taken_) static_cast<void>(set_io_priority(before_));
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool is_taken() const { return is_taken_; }

 private:
  const int before_;
  const bool is_taken_;
};

}  // namespace

Result<GiveWay> give_way(IoClass wanted) {
  if (wanted == IoClass::normal) return GiveWay();
  constexpr int kLowest = IOPRIO_BE_NR - 1;
  const int priority = wanted == IoClass::idle ? IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0)
                                               : IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, kLowest);
  if (!Turn(priority).is_taken()) return Error(Code::unsupported, errno_error(errno, "ioprio_set").what());
  return GiveWay([priority] { return std::make_shared<Turn>(priority); });
}

}  // namespace unbroken
