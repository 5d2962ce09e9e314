#include "os/syscalls.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace unbroken {
namespace {

int io_uring_setup(unsigned entries, void* params) {
  return static_cast<int>(::syscall(__NR_io_uring_setup, entries, params));
}

int io_uring_enter(int ring, unsigned submitted, unsigned awaited, unsigned flags) {
  return static_cast<int>(::syscall(__NR_io_uring_enter, ring, submitted, awaited, flags, nullptr, 0));
}

}  // namespace

const Syscalls kSyscalls = {.pwrite = ::pwrite,
                            .pread = ::pread,
                            .fallocate = ::fallocate,
                            .fsync = ::fsync,
                            .close = ::close,
                            .linkat = ::linkat,
                            .io_uring_setup = io_uring_setup,
                            .io_uring_enter = io_uring_enter,
                            .renameat2 = ::renameat2};

}  // namespace unbroken
