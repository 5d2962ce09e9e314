#include "sim/sim_fault.h"

#include <array>

#include "base/text.h"

namespace unbroken {

std::string_view name_of(SimOp op) {
  static constexpr std::array<std::string_view, 20> kNames{
      "create_excl", "open_read", "write",      "read",     "size",       "sync",     "close",
      "link",        "rename",    "unlink",     "make_dir", "remove_dir", "sync_dir", "list",
      "info",        "append",    "free_bytes", "put",      "get",        "remove"};
  return kNames[static_cast<std::size_t>(op)];
}

FaultRates swarm_rates(SimRandom& random) {
  FaultRates rates;
  for (std::uint32_t* rate :
       {&rates.eio_ppm, &rates.no_space_ppm, &rates.sync_loses_ppm, &rates.answer_lost_ppm, &rates.twice_ppm,
        &rates.stale_list_ppm, &rates.hang_ppm}) {
    const bool is_on = random.below(2) == 0;
    const auto ppm = static_cast<std::uint32_t>(1'000 + random.below(29'000));
    if (is_on) *rate = ppm;
  }
  return rates;
}

void Faults::set_rates(const FaultRates& rates) {
  rates_ = rates;
  has_rates_ = true;
}

void Faults::stop() {
  planned_.clear();
  has_rates_ = false;
}

Fault Faults::draw(SimOp op) {
  if (random_.happens(rates_.hang_ppm)) {
    const auto most = static_cast<std::uint64_t>(rates_.hang_max.count());
    return {FaultKind::hang, Duration(static_cast<Duration::rep>(1 + random_.below(most)))};
  }
  if (op != SimOp::close && random_.happens(rates_.eio_ppm)) return {FaultKind::eio, {}};
  switch (op) {
    case SimOp::put:
      if (random_.happens(rates_.twice_ppm)) return {FaultKind::twice, {}};
      if (random_.happens(rates_.answer_lost_ppm)) {
        constexpr std::array kinds{FaultKind::answer_lost_done, FaultKind::answer_lost_undone,
                                   FaultKind::answer_lost_late};
        return {kinds[random_.below(3)], {}};
      }
      [[fallthrough]];
    case SimOp::create_excl:
    case SimOp::write:
    case SimOp::append:
      if (random_.happens(rates_.no_space_ppm)) return {FaultKind::no_space, {}};
      break;
    case SimOp::link:
    case SimOp::make_dir:
      if (random_.happens(rates_.answer_lost_ppm)) {
        return {random_.below(2) == 0 ? FaultKind::answer_lost_done : FaultKind::answer_lost_undone, {}};
      }
      break;
    case SimOp::sync:
      if (random_.happens(rates_.sync_loses_ppm)) return {FaultKind::sync_loses, {}};
      break;
    case SimOp::read:
    case SimOp::get:
      if (random_.happens(rates_.flips_bit_ppm)) return {FaultKind::flips_bit, {}};
      break;
    case SimOp::list:
      if (random_.happens(rates_.stale_list_ppm)) return {FaultKind::stale_list, {}};
      break;
    default:
      break;
  }
  return {};
}

Fault Faults::decide(SimOp op, std::string_view path, std::string_view process) {
  for (Planned& planned : planned_) {
    const PlannedFault& fault = planned.fault;
    if (fault.op != op || !glob_matches(fault.path, path) || !glob_matches(fault.process, process)) continue;
    ++planned.matched;
    if (planned.matched < fault.nth || planned.matched - fault.nth >= fault.count) continue;
    ++hit_count_;
    return {fault.kind, fault.hang};
  }
  if (!has_rates_) return {};
  const Fault drawn = draw(op);
  if (drawn.kind != FaultKind::none) ++hit_count_;
  return drawn;
}

}  // namespace unbroken
