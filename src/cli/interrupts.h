#pragma once
// Ctrl-C and its like, while children have to be ended first.
namespace unbroken {

/// While one lives, SIGINT, SIGTERM and SIGHUP are noted instead of ending the program.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  static bool has_come();
  /// Dies by what has come, as if nobody had waited.
  static void die();
};

}  // namespace unbroken
