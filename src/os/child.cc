#include "os/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <map>

#include "os/descriptor.h"
#include "os/errno.h"

namespace unbroken {

namespace {

constexpr Duration kSlice = std::chrono::milliseconds(2);
constexpr Duration kAfterLeader =
    std::chrono::seconds(30);  // for the rest of a group whose leader ended by itself

void pause_for(Duration duration) {
  const timespec time{.tv_sec = static_cast<time_t>(duration.count() / 1'000'000'000),
                      .tv_nsec = static_cast<long>(duration.count() % 1'000'000'000)};
  ::nanosleep(&time, nullptr);
}

std::vector<std::string> environment_of(const ChildOptions& options) {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    all.insert_or_assign(text.substr(0, text.find('=')), text);
  }
  for (const auto& [name, value] : options.env) {
    all.erase(name);
    if (value) all[name] = name + "=" + *value;
  }
  std::vector<std::string> out;
  for (auto& [name, entry] : all) out.push_back(std::move(entry));
  return out;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

Result<Descriptor> output_to(const std::string& file) {
  if (file.empty()) return adopt(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3), "dup", "stderr");
  return adopt(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), "open", file);
}

Result<> make_pipe(Descriptor& reading, Descriptor& writing) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return errno_error(errno, "pipe");
  auto in = adopt(ends[0], "pipe");
  auto out = adopt(ends[1], "pipe");
  if (!in.ok()) return std::move(in).error();
  if (!out.ok()) return std::move(out).error();
  reading = std::move(in).value();
  writing = std::move(out).value();
  return Done{};
}

struct Launch {
  char** command;
  char** env;
  int stdin_file, stdout_file, stderr_file, failure;
  pid_t parent;
};

/// In the child: only calls that are safe after a fork.
[[noreturn]] void become(const Launch& launch) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  struct sigaction usual{};
  usual.sa_handler = SIG_DFL;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT}) ::sigaction(signal, &usual, nullptr);
  const bool is_ready = ::getppid() == launch.parent && ::dup2(launch.stdin_file, STDIN_FILENO) >= 0 &&
                        ::dup2(launch.stdout_file, STDOUT_FILENO) >= 0 &&
                        ::dup2(launch.stderr_file, STDERR_FILENO) >= 0;
  if (is_ready) ::execvpe(launch.command[0], launch.command, launch.env);
  const int why = errno;
  static_cast<void>(!::write(launch.failure, &why, sizeof why));
  ::_exit(127);
}

}  // namespace

Result<Child> Child::start(const ChildOptions& options) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // what a command leaves behind becomes ours
  std::vector<std::string> command = options.command, env = environment_of(options);
  const std::vector<char*> argv = pointers_to(command), envp = pointers_to(env);
  UNBROKEN_TRY(const Descriptor nothing,
               adopt(::open("/dev/null", O_RDONLY | O_CLOEXEC), "open", "/dev/null"));
  Descriptor output, out;
  if (options.is_output_read) {
    UNBROKEN_DO(make_pipe(output, out));
  } else {
    UNBROKEN_TRY(out, output_to(options.stdout_file));
  }
  UNBROKEN_TRY(const Descriptor err, output_to(options.stderr_file));
  Descriptor failure, telling;
  UNBROKEN_DO(make_pipe(failure, telling));

  const Launch launch{.command = const_cast<char**>(argv.data()),
                      .env = const_cast<char**>(envp.data()),
                      .stdin_file = nothing.get(),
                      .stdout_file = out.get(),
                      .stderr_file = err.get(),
                      .failure = telling.get(),
                      .parent = ::getpid()};
  const pid_t pid = ::fork();
  if (pid < 0) return errno_error(errno, "fork", command.front());
  if (pid == 0) become(launch);
  ::setpgid(pid, pid);
  telling = Descriptor();
  int why = 0;
  ssize_t count = 0;
  do count = ::read(failure.get(), &why, sizeof why);
  while (count < 0 && errno == EINTR);
  if (count == 0) {
    if (output.get() >= 0) ::fcntl(output.get(), F_SETFL, O_NONBLOCK);
    return Child(pid, std::move(output));
  }
  ::waitpid(pid, nullptr, 0);
  return errno_error(why, "exec", command.front());
}

Child::Child(Child&& other) noexcept
    : group_(std::exchange(other.group_, 0)),
      output_(std::move(other.output_)),
      end_(other.end_),
      is_over_(std::exchange(other.is_over_, true)),
      alone_since_(other.alone_since_) {}

Child::~Child() {
  if (is_over_) return;
  send(Signal::kill);
  while (!is_over_) {
    reap();
    if (!is_over_) pause_for(kSlice);
  }
}

void Child::send(Signal signal) {
  if (is_over_) return;
  ::kill(-group_, signal == Signal::kill ? SIGKILL : signal == Signal::term ? SIGTERM : SIGSTOP);
}

/// Takes every end that is there to be taken.
void Child::reap() {
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-group_, &status, WNOHANG);
    if (pid == 0) return;
    if (pid < 0) {
      is_over_ = errno != EINTR;
      if (is_over_) return;
      continue;
    }
    if (pid == group_)
      end_ = WIFSIGNALED(status) ? End{true, WTERMSIG(status)} : End{false, WEXITSTATUS(status)};
  }
}

std::size_t Child::read_output(std::span<char> into) {
  if (output_.get() < 0) return 0;
  const ssize_t count = ::read(output_.get(), into.data(), into.size());
  if (count > 0) return static_cast<std::size_t>(count);
  // Whoever held the other end has closed it; waiting for it would return at once, for ever.
  if (count == 0 || (errno != EAGAIN && errno != EINTR)) output_ = Descriptor();
  return 0;
}

std::optional<Child::End> Child::wait(Duration limit) {
  for (Duration left = limit;; left -= kSlice) {
    reap();
    if (is_over_) return end_;
    if (end_) {
      const auto now = std::chrono::steady_clock::now();
      if (!alone_since_) alone_since_ = now;
      const bool is_too_long = now - *alone_since_ > kAfterLeader;
      if ((end_->is_signal && end_->number == SIGKILL) || is_too_long) send(Signal::kill);
    }
    if (left <= Duration{}) return std::nullopt;
    pause_for(std::min(left, kSlice));
  }
}

}  // namespace unbroken
