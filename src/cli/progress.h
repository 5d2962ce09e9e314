#pragma once
// How far a long read has come, on stderr: a bar with rate and time left on a terminal, a plain line now and
// then elsewhere.
#include <functional>
#include <memory>
#include <string>

#include "world/clock.h"
#include "world/executor.h"

namespace unbroken {

class Progress {
 public:
  /// `done` is asked from the strand until this object ends. Bytes.
  Progress(std::string doing, std::uint64_t total, std::function<std::uint64_t()> done, Clock& clock,
           Executor& executor);
  /// Wipes the bar away.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  struct Shared;
  const std::shared_ptr<Shared> shared_;
};

/// "[=====>    ]  52 %  1.2 GiB of 2.3 GiB  800.0 MiB/s  2.1s left".
std::string progress_text(std::uint64_t done, std::uint64_t total, double elapsed_s);

}  // namespace unbroken
