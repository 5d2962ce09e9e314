#pragma once
// Where work runs. One strand takes decisions, lanes of workers move bytes. Tasks never throw.
#include <cstdint>
#include <functional>

#include "base/result.h"
#include "world/clock.h"

namespace unbroken {

using Task = std::function<void()>;

enum class Lane : std::uint8_t {
  strand,   ///< one task at a time, in order: protocol state lives here
  io,       ///< may block in storage calls
  compute,  ///< copies and hashes; never blocks
};

class Executor {
 public:
  virtual ~Executor() = default;
  /// False: the bounded queue is full or the executor is stopping; nothing was taken.
  virtual bool post(Lane lane, Task task) = 0;
  /// On the strand, not before `when`.
  virtual void post_at(Instant when, Task task) = 0;
  /// Blocks the caller until `is_done()` holds. `is_done` is called with no lock of ours held and must be
  /// safe to call from any thread (read atomics). Errors: late, stopped.
  virtual Result<> wait(const std::function<bool()>& is_done, const Deadline& by) = 0;
  /// Waits, however long, for work that runs in our own lanes and ends by itself. It returns only once
  /// `is_done()` holds, also while the process is being ended: what the work touches is the caller's.
  virtual void join(const std::function<bool()>& is_done) {
    while (!is_done()) (void)wait(is_done, Deadline{Instant{Duration::max()}, {}});
  }
  /// Something that a waiter may be waiting for has changed.
  virtual void notify() = 0;
  /// Workers of a lane that can run at once (a hint for splitting work), at least 1.
  virtual unsigned width(Lane lane) const = 0;
};

}  // namespace unbroken
