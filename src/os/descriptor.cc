#include "os/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "os/errno.h"

namespace unbroken {

void Descriptor::reset() noexcept {
  if (number_ < 0) return;
  const int before = errno;
  ::close(number_);
  errno = before;
  number_ = -1;
}

Result<Descriptor> adopt(int opened, std::string_view call, std::string_view path) {
  if (opened < 0) return errno_error(errno, call, path);
  Descriptor low(opened);
  if (opened > STDERR_FILENO) return low;
  const int moved = ::fcntl(opened, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (moved < 0) return errno_error(errno, "fcntl", path);
  return Descriptor(moved);
}

}  // namespace unbroken
