// A saving training for the tests that end lives: quick to start, and it tells the outside what it holds.
//
//     saver DIR STEPS [EVERY]     the state is saved every EVERY steps, 1 unless said; some saves are waited
//     for saver --plants-faults       succeeds where faults can be planted with UNBROKEN_MUTANT
//
// Lines on stdout, each written at once: `resumed STEP`, `step STEP DIGEST` for the state that was resumed
// and after each step, `ack NAME` for each checkpoint that is durable, `final DIGEST`.
#include <unbroken/session.h>

#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#ifdef UNBROKEN_WITH_MUTANTS
#include "base/mutant.h"
#endif

namespace {

/// Linear congruential generators side by side: whatever is mixed of two steps ends in another digest.
class Toy {
 public:
  Toy() {
    for (std::uint64_t i = 0; i < values_.size(); ++i) values_[i] = i;
  }

  unbroken::TensorView view() {
    return unbroken::contiguous_view("values", unbroken::DType::u64, {values_.size()}, values_.data());
  }

  void train_step() {
    for (std::uint64_t i = 0; i < values_.size(); ++i)
      values_[i] = values_[i] * 6364136223846793005U + (2 * i + 1);
  }

  std::string digest() const {
    std::uint64_t sum = 14695981039346656037U;
    for (const std::uint64_t value : values_) sum = (sum ^ value ^ (value >> 32)) * 1099511628211U;
    char text[17];
    std::snprintf(text, sizeof text, "%016" PRIx64, sum);
    return text;
  }

 private:
  std::vector<std::uint64_t> values_ = std::vector<std::uint64_t>(40'000);  // 312 KiB
};

/// One write: whoever reads has the whole line, or was not told.
void tell(const std::string& line) {
  if (write(STDOUT_FILENO, (line + "\n").data(), line.size() + 1) < 0) std::_Exit(74);
}

unbroken::Result<> train(const std::string& directory, std::uint64_t steps, const std::string& every) {
  Toy toy;
  UNBROKEN_TRY(unbroken::Session session, unbroken::Session::open(directory, {.every = every}));
  UNBROKEN_DO(session.attach("toy", {toy.view()}));
  UNBROKEN_TRY(std::uint64_t step, session.restore());
  tell("resumed " + std::to_string(step));
  tell("step " + std::to_string(step) + " " + toy.digest());
  auto told = session.newest();
  const auto tell_newest = [&] {
    if (const auto newest = session.newest(); newest != told) {
      told = newest;
      tell("ack " + *newest);
    }
  };
  while (step < steps) {
    toy.train_step();
    UNBROKEN_DO(session.step(++step));
    if (step % 3 == 0 && every == "1") UNBROKEN_DO(session.save());
    tell_newest();
    tell("step " + std::to_string(step) + " " + toy.digest());
  }
  UNBROKEN_DO(session.close());
  tell_newest();
  tell("final " + toy.digest());
  return unbroken::Done{};
}

}  // namespace

int main(int argc, char** argv) {
#ifdef UNBROKEN_WITH_MUTANTS
  if (argc == 2 && std::strcmp(argv[1], "--plants-faults") == 0) return 0;
  if (const char* const name = std::getenv("UNBROKEN_MUTANT"); name != nullptr)
    unbroken::active_mutant = name;
#endif
  if (argc < 3) {
    std::fprintf(stderr, "usage: saver DIR STEPS [EVERY]\n");
    return 78;
  }
  const auto done = train(argv[1], std::strtoull(argv[2], nullptr, 10), argc > 3 ? argv[3] : "1");
  return done.ok() ? 0 : unbroken::exit_with(done.error());
}
