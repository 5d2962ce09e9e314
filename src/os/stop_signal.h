#pragma once
// SIGTERM as a flag: the step at hand is finished and saved, then the program leaves.
namespace unbroken {

/// While one lives, a first SIGTERM raises the flag and a second one goes to the handler that was there
/// before.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  bool is_raised() const noexcept;
};

}  // namespace unbroken
