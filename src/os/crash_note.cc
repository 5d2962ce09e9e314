#include "os/crash_note.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace unbroken {

namespace {

constexpr std::array kSignals{SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

// Of the one that lives; the handler allocates nothing.
std::atomic<bool> is_taken{false};
std::atomic<bool> is_armed{false};
pid_t owner = 0;
std::array<char, 4096> folder_path, file_path;
std::array<char, 128> mark_text;
std::array<struct sigaction, kSignals.size()> before;

template <std::size_t N>
bool copy_text(std::array<char, N>& into, const std::string& text) {
  if (text.size() >= N) return false;
  std::memcpy(into.data(), text.c_str(), text.size() + 1);
  return true;
}

void leave_note(int signal) {
  (void)::mkdir(folder_path.data(), 0700);
  const int file = ::open(file_path.data(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return;
  std::array<char, mark_text.size() + 8> line{};
  std::size_t size = std::strlen(mark_text.data());
  std::memcpy(line.data(), mark_text.data(), size);
  line[size++] = ' ';
  if (signal >= 10) line[size++] = static_cast<char>('0' + signal / 10);
  line[size++] = static_cast<char>('0' + signal % 10);
  line[size++] = '\n';
  if (::write(file, line.data(), size) >= 0) (void)::fsync(file);
  (void)::close(file);
}

void on_crash(int signal) {
  const int error = errno;
  if (is_armed.exchange(false) && ::getpid() == owner) leave_note(signal);
  for (std::size_t i = 0; i < kSignals.size(); ++i)
    if (kSignals[i] == signal) (void)::sigaction(signal, &before[i], nullptr);
  (void)::raise(signal);  // comes once this one returns
  errno = error;
}

}  // namespace

CrashNote::CrashNote(const std::string& folder, const std::string& file, const std::string& mark) {
  const std::string path = folder + "/" + file;
  if (is_taken.exchange(true)) return;
  is_first_ = true;
  if (!copy_text(folder_path, path.substr(0, path.rfind('/'))) || !copy_text(file_path, path) ||
      !copy_text(mark_text, mark))
    return;
  owner = ::getpid();
  struct sigaction action{};
  action.sa_handler = on_crash;
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_ONSTACK;
  for (std::size_t i = 0; i < kSignals.size(); ++i) (void)::sigaction(kSignals[i], &action, &before[i]);
  is_armed = true;
}

CrashNote::~CrashNote() {
  if (!is_first_) return;
  if (is_armed.exchange(false))
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction there{};
      (void)::sigaction(kSignals[i], nullptr, &there);
      // Somebody else's is left alone.
      if ((there.sa_flags & SA_SIGINFO) == 0 && there.sa_handler == on_crash)
        (void)::sigaction(kSignals[i], &before[i], nullptr);
    }
  is_taken = false;
}

}  // namespace unbroken
