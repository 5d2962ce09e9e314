#pragma once
// SIGTERM as a flag: the step at hand is finished and saved, then the program leaves.
namespace unbroken {

/// While one lives, a first SIGTERM raises the flag and a second one goes to the handler that was there
/// before. Several share one handler and one flag; the last that ends puts the old handler back.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  bool is_raised() const noexcept;
};

}  // namespace unbroken
