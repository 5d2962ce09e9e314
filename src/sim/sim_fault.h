#pragma once
// Which call goes wrong, and how: planned by hand ("the second fsync below journal/ loses its pages") or
// drawn from the seed at given rates.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "simdisk/sim_random.h"
#include "world/clock.h"

namespace unbroken {

/// The calls a simulated process makes on storage.
enum class SimOp : std::uint8_t {
  create_excl,
  open_read,
  write,
  read,
  size,
  sync,
  close,
  link,
  rename,
  unlink,
  make_dir,
  remove_dir,
  sync_dir,
  list,
  info,
  append,
  free_bytes,
  put,  ///< the requests of an object store
  get,
  remove,
};
std::string_view name_of(SimOp op);

enum class FaultKind : std::uint8_t {
  none,
  eio,                 ///< fails, nothing happened
  no_space,            ///< ENOSPC, nothing happened
  stale_handle,        ///< ESTALE, nothing happened
  read_only,           ///< EROFS, nothing happened
  answer_lost_done,    ///< it took place and the answer is lost: Created::unknown, elsewhere `unavailable`
  answer_lost_undone,  ///< it did not take place and the answer is lost
  answer_lost_late,    ///< object store: the answer is lost and the request is applied later
  twice,               ///< object store: applied now and once more later
  sync_loses,          ///< fsync: EIO, then the pages count as clean and never reach the disk
  stale_list,          ///< list: any subset of the recent changes is not seen
  flips_bit,           ///< read: one bit of what comes back is wrong, this time
  hang,                ///< takes `hang` longer, then succeeds
};

struct PlannedFault {
  FaultKind kind = FaultKind::eio;
  SimOp op = SimOp::write;
  std::string path = "*";     ///< glob over the path
  std::string process = "*";  ///< glob over the process's name
  std::uint64_t nth = 1;      ///< the first call that matches is 1
  std::uint64_t count = 1;    ///< so many in a row
  Duration hang = std::chrono::seconds(10);
};

/// In millionths of the calls that each can hit.
struct FaultRates {
  std::uint32_t eio_ppm = 0;          ///< any call but close
  std::uint32_t no_space_ppm = 0;     ///< calls that need space
  std::uint32_t sync_loses_ppm = 0;   ///< sync
  std::uint32_t answer_lost_ppm = 0;  ///< link, make_dir, put: done, undone or late
  std::uint32_t twice_ppm = 0;        ///< put
  std::uint32_t stale_list_ppm = 0;   ///< list
  std::uint32_t flips_bit_ppm = 0;    ///< read
  std::uint32_t hang_ppm = 0;         ///< any call
  Duration hang_max = std::chrono::seconds(10);
};

/// Rates for one run of many: each kind of fault is on in about half of them, with 0.1 to 3 calls in a
/// hundred hit. Never wrong bits, which need a checker of their own.
FaultRates swarm_rates(SimRandom& random);

struct Fault {
  FaultKind kind = FaultKind::none;
  Duration hang{};
};

class Faults {
 public:
  explicit Faults(std::uint64_t seed) : random_(seed, "faults") {}
  void plan(PlannedFault fault) { planned_.push_back({std::move(fault), 0}); }
  void set_rates(const FaultRates& rates);
  /// From here on nothing goes wrong.
  void stop();
  Fault decide(SimOp op, std::string_view path, std::string_view process);
  /// How many calls were hit so far.
  std::uint64_t hit_count() const { return hit_count_; }
  SimRandom& random() { return random_; }

 private:
  struct Planned {
    PlannedFault fault;
    std::uint64_t matched;
  };
  Fault draw(SimOp op);

  std::vector<Planned> planned_;
  FaultRates rates_;
  bool has_rates_ = false;
  std::uint64_t hit_count_ = 0;
  SimRandom random_;
};

}  // namespace unbroken
