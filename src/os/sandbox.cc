#include "os/sandbox.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <limits>
#include <new>
#include <vector>

#include "os/descriptor.h"
#include "os/errno.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNBROKEN_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNBROKEN_SANITIZED 1
#endif
#endif

namespace unbroken {

namespace {

#if defined(__x86_64__)
constexpr unsigned kMachine = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kMachine = AUDIT_ARCH_AARCH64;
#else
constexpr unsigned kMachine = 0;
#endif

/// First byte of an answer.
constexpr char kValue = 'v', kError = 'e', kNoFilter = 'n';

constexpr sock_filter load(std::size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset));
}
constexpr sock_filter give(unsigned verdict) {
  return BPF_STMT(BPF_RET | BPF_K, verdict);
}
/// Skips the next instruction unless the loaded word is `value`.
constexpr sock_filter only_if(unsigned value) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
}

constexpr std::size_t argument(std::size_t index) {
  return offsetof(seccomp_data, args) + 8 * index;  // the low half, little-endian
}

/// What is left to the child. mmap and mprotect only without PROT_EXEC, mmap only of no file.
std::vector<sock_filter> filter() {
  std::vector<sock_filter> code{load(offsetof(seccomp_data, arch)),
                                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kMachine, 1, 0),
                                give(SECCOMP_RET_KILL_PROCESS), load(offsetof(seccomp_data, nr))};
  for (const long number :
       {SYS_read, SYS_pread64, SYS_write, SYS_close, SYS_brk, SYS_munmap, SYS_mremap, SYS_madvise, SYS_futex,
        SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_clock_gettime, SYS_sched_yield,
        SYS_getrandom, SYS_getpid, SYS_gettid, SYS_sigaltstack}) {
    code.push_back(only_if(static_cast<unsigned>(number)));
    code.push_back(give(SECCOMP_RET_ALLOW));
  }
  // mmap(address, size, protection, flags, file, offset) and mprotect(address, size, protection)
  code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(SYS_mmap), 2, 0));
  code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(SYS_mprotect), 4, 0));
  code.push_back(give(SECCOMP_RET_KILL_PROCESS));
  code.push_back(load(argument(3)));
  code.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 1, 0));
  code.push_back(give(SECCOMP_RET_KILL_PROCESS));
  code.push_back(load(argument(2)));
  code.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1));
  code.push_back(give(SECCOMP_RET_KILL_PROCESS));
  code.push_back(give(SECCOMP_RET_ALLOW));
  return code;
}

void limit(int resource, std::uint64_t value) {
  rlimit now{};
  ::getrlimit(static_cast<__rlimit_resource_t>(resource), &now);
  now.rlim_cur = now.rlim_max = std::min<rlim_t>(value, now.rlim_max);
  ::setrlimit(static_cast<__rlimit_resource_t>(resource), &now);
}

/// Pages of address space that this process has.
std::uint64_t address_space_bytes() {
  std::uint64_t pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "re")) {
    char text[64] = {};
    if (std::fgets(text, sizeof text, file) != nullptr) pages = std::strtoull(text, nullptr, 10);
    std::fclose(file);
  }
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

void close_all_but(std::vector<int> kept) {
  std::sort(kept.begin(), kept.end());
  unsigned from = 0;
  for (const int file : kept) {
    const auto number = static_cast<unsigned>(file);
    if (number > from) ::syscall(SYS_close_range, from, number - 1, 0);
    from = number + 1;
  }
  ::syscall(SYS_close_range, from, ~0U, 0);
}

/// False where the kernel does not take the filter.
bool lock(const SandboxLimits& limits, std::vector<sock_filter>& code) {
  ::prctl(PR_SET_DUMPABLE, 0);
  // A heap that grows counts the processors and one that shrinks reads a setting: the filter permits neither.
  ::mallopt(M_ARENA_MAX, 1);
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_CPU, limits.cpu_s);
  [[maybe_unused]] const std::uint64_t memory = address_space_bytes() + limits.memory_bytes;
#ifndef UNBROKEN_SANITIZED  // sanitizers reserve terabytes
  limit(RLIMIT_AS, memory);
#endif
  const sock_fprog program{.len = static_cast<unsigned short>(code.size()), .filter = code.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

void send(int pipe, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(pipe, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) ::_exit(1);
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

[[noreturn]] void be_child(std::span<const int> files, int pipe,
                           const std::function<Result<std::string>()>& work, const SandboxLimits& limits,
                           std::vector<sock_filter>& code) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(number, SIG_DFL);
  const bool is_locked = kMachine != 0 && lock(limits, code);
  if (!is_locked) {
    send(pipe, std::string_view(&kNoFilter, 1));
    ::_exit(0);
  }
  std::string answer;
  try {
    auto done = work();
    if (done.ok()) {
      answer = std::move(done).value();
      send(pipe, std::string_view(&kValue, 1));
    } else {
      answer = std::string(1, static_cast<char>(done.error().code())) + done.error().what();
      send(pipe, std::string_view(&kError, 1));
    }
    send(pipe, answer);
  } catch (const std::bad_alloc&) {
    send(pipe, std::string_view(&kError, 1));
    const char corrupt = static_cast<char>(Code::corrupt);
    send(pipe, std::string_view(&corrupt, 1));
    send(pipe, "reading it takes more memory than it may have");
  } catch (...) {
    ::_exit(1);
  }
  static_cast<void>(files);
  ::_exit(0);
}

/// All that the child writes. Errors: corrupt where it is too much.
Result<std::string> receive(int pipe, std::uint64_t bytes_max) {
  std::string out;
  std::vector<char> room(std::size_t{1} << 18);
  for (;;) {
    const ssize_t count = ::read(pipe, room.data(), room.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error(errno, "read", "the reader's pipe");
    if (count == 0) return out;
    out.append(room.data(), static_cast<std::size_t>(count));
    if (out.size() > bytes_max) return Error(Code::corrupt, "its reader found more in it than may be");
  }
}

Error ended_badly(int status) {
  const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  const std::string_view why = number == SIGSYS    ? "it asked the system for what it may not have"
                               : number == SIGXCPU ? "it took too long"
                               : number == SIGKILL ? "it was killed: time or memory ran out"
                               : number != 0       ? "it crashed"
                                                   : "it failed";
  return Error(Code::corrupt, fmt::format("its reader, in the sandbox, was ended: {}", why));
}

}  // namespace

Result<std::string> run_in_sandbox(std::span<const int> files,
                                   const std::function<Result<std::string>()>& work,
                                   const SandboxLimits& limits) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return errno_error(errno, "pipe", "sandbox");
  UNBROKEN_TRY(const Descriptor reading, adopt(ends[0], "pipe", "sandbox"));
  auto writing = adopt(ends[1], "pipe", "sandbox");
  if (!writing.ok()) return std::move(writing).error();
  std::vector<sock_filter> code = filter();
  const pid_t child = ::fork();
  if (child < 0) return errno_error(errno, "fork", "sandbox");
  if (child == 0) {
    std::vector<int> kept(files.begin(), files.end());
    kept.push_back(writing.value().get());
    close_all_but(std::move(kept));
    be_child(files, writing.value().get(), work, limits, code);
  }
  writing.value() = Descriptor();
  auto answer = receive(reading.get(), limits.output_bytes);
  if (!answer.ok()) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!answer.ok()) return std::move(answer).error();
  std::string& text = answer.value();
  if (status != 0 || text.empty()) return ended_badly(status);
  if (text.front() == kNoFilter)
    return Error(Code::unsupported, "this kernel has no seccomp, and a pickle is read in a sandbox only");
  if (text.front() == kValue) {
    text.erase(0, 1);
    return answer;
  }
  if (text.size() < 2 || text[1] > static_cast<char>(Code::bug)) return ended_badly(0);
  return Error(static_cast<Code>(text[1]), text.substr(2));
}

}  // namespace unbroken
