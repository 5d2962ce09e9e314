// What another project writes: a run of three steps, ended and started again, through the public headers
// only.
#include <unbroken/session.h>

#include <cstdio>
#include <vector>

namespace {

/// Opens the run, does the steps that are left up to `steps`, and says from which step it went on; -1:
/// failed.
long live(const char* directory, std::uint64_t steps) {
  std::vector<float> weights(8, 0.0F);
  auto session = unbroken::Session::open(directory, {.every = "1"});
  if (!session.ok()) return unbroken::exit_with(session.error()), -1;
  auto& run = session.value();
  auto attached =
      run.attach("model", {unbroken::contiguous_view("weights", unbroken::DType::f32, {8}, weights.data())});
  if (!attached.ok()) return unbroken::exit_with(attached.error()), -1;
  const auto restored = run.restore();
  if (!restored.ok()) return unbroken::exit_with(restored.error()), -1;
  if (weights[0] != static_cast<float>(restored.value())) return -1;
  for (std::uint64_t step = restored.value(); step < steps; ++step) {
    for (float& weight : weights) weight += 1.0F;
    const auto done = run.step(step + 1);
    if (!done.ok()) return unbroken::exit_with(done.error()), -1;
  }
  const auto closed = run.close();
  if (!closed.ok()) return unbroken::exit_with(closed.error()), -1;
  return static_cast<long>(restored.value());
}

}  // namespace

int main(int, char** arguments) {
  const long first = live(arguments[1], 3);
  const long second = live(arguments[1], 5);
  std::printf("began at %ld, went on at %ld\n", first, second);
  return first == 0 && second == 3 ? 0 : 1;
}
