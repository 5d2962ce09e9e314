#pragma once
// When a job is interrupted. Every node has a clock of its own, drawn from its law and begun anew when the
// node is replaced. At the start each node has an age as at a random moment, so that the mean time to
// interruption of the job is M from its first second on, whatever the law.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "planner/simulator/random.h"

namespace unbroken {

/// One life of a job that was watched: when it ended and, where that is known, what it was like.
struct TracedLife {
  double ends_s = 0;                      ///< from the start of the job
  std::optional<double> recovery_s = {};  ///< until its first step began; infinite: it ended before
  std::optional<double> interval_s = {};  ///< of work between its saves
};

struct FailureLaw {
  enum class Kind : std::uint8_t { exponential, weibull, trace };
  Kind kind = Kind::exponential;
  double shape = 1;                    ///< of Weibull; its scale keeps the mean
  std::vector<TracedLife> trace = {};  ///< sorted; each ends with an interruption
  /// Share of the interruptions that take a whole group of nodes (a rack, a switch): only the safest tier
  /// survives them. The clocks of its other nodes go on, so that M holds whatever the law.
  double correlated = 0;
};

struct Failure {
  double at_s = 0;         ///< infinite: there is none any more
  std::uint32_t node = 0;  ///< the one whose clock ran out; with a trace none
  bool is_group = false;
  /// Of the life that this one ends, where a trace tells.
  std::optional<double> recovery_s = {}, interval_s = {};
};

class FailureSource {
 public:
  /// `mtti_s` of the whole job; infinite: no failures.
  FailureSource(const FailureLaw& law, double mtti_s, std::uint32_t nodes, SeededRandom& random);
  /// The next interruption; times never decrease.
  Failure next();

 private:
  struct Due {
    double at_s;
    std::uint32_t node;
    bool operator>(const Due& other) const {
      return at_s > other.at_s || (at_s == other.at_s && node > other.node);
    }
  };
  double draw_lifetime_s();
  double draw_first_s();
  void renew(std::uint32_t node, double now_s);

  const FailureLaw& law_;
  SeededRandom& random_;
  double node_mtbf_s_;
  double scale_s_ = 0;
  std::vector<Due> heap_;
  std::size_t trace_index_ = 0;
};

}  // namespace unbroken
