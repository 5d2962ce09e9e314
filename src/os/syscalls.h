#pragma once
// The system calls whose answers a test has to be able to bend: short counts, interruptions, refusals,
// errors. Everything else is called directly. A call returns -1 and sets errno.
#include <sys/types.h>

#include <cstddef>

namespace unbroken {

struct Syscalls {
  ssize_t (*pwrite)(int file, const void* data, std::size_t count, off_t offset);
  ssize_t (*pread)(int file, void* into, std::size_t count, off_t offset);
  int (*fallocate)(int file, int mode, off_t offset, off_t count);
  int (*fsync)(int file);
  int (*close)(int file);
  int (*linkat)(int from_dir, const char* from, int to_dir, const char* to, int flags);
  int (*io_uring_setup)(unsigned entries, void* params);
  int (*io_uring_enter)(int ring, unsigned submitted, unsigned awaited, unsigned flags);
  int (*renameat2)(int from_dir, const char* from, int to_dir, const char* to, unsigned flags);
};

extern const Syscalls kSyscalls;

}  // namespace unbroken
