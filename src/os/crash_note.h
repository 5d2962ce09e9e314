#pragma once
// A process that crashes while it loads can tell nobody, but the next one should know.
#include <string>

namespace unbroken {

/// While one lives, this process leaves a line, `mark` and the number of the signal, in `file` below `folder`
/// when it dies of SIGSEGV, SIGBUS, SIGILL, SIGFPE or SIGABRT; then the handler that was there before has its
/// turn. The folder of the file is made where it is missing. Only one at a time does something. A child that
/// was forked leaves none.   Threads: the one that makes it.
class CrashNote {
 public:
  CrashNote(const std::string& folder, const std::string& file, const std::string& mark);
  ~CrashNote();
  CrashNote(const CrashNote&) = delete;
  CrashNote& operator=(const CrashNote&) = delete;

 private:
  bool is_first_ = false;
};

}  // namespace unbroken
