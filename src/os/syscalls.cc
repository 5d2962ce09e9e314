#include "os/syscalls.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

namespace unbroken {

const Syscalls kSyscalls = {.pwrite = ::pwrite,
                            .pread = ::pread,
                            .fallocate = ::fallocate,
                            .fsync = ::fsync,
                            .close = ::close,
                            .linkat = ::linkat,
                            .renameat2 = ::renameat2};

}  // namespace unbroken
