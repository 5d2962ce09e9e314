#pragma once
// What the background found out and the trainer asks for: the newest checkpoint, health, messages, being
// fenced.
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace unbroken {

struct Health {
  enum class State : std::uint8_t { green, yellow, red };
  State state = State::green;
  std::vector<std::string> why;
  std::uint64_t saves_failed = 0, saves_skipped = 0;
};

/// Threads: any.
class Status {
 public:
  void saved(const SaveId& save, double exposed_s, double durable_s);
  void verified(const SaveId& save);
  void save_failed(const SaveId& save, const Error& error);
  void save_skipped();
  void warn(std::string text);
  /// Turns health yellow until a later save is verified.
  void worry(std::string text);
  void fenced(Error error);

  std::optional<SaveId> newest() const;
  void set_newest(std::optional<SaveId> save);
  Health health() const;
  std::optional<Error> fence() const;
  /// The failure of a background save that nobody was told of yet; asked once.
  std::optional<Error> take_failure();
  /// Lines to show a person, each once.
  std::vector<std::string> take_messages();
  /// What the last finished save cost, once.
  struct Cost {
    double exposed_s, durable_s;
  };
  std::optional<Cost> take_cost();

 private:
  mutable std::mutex mutex_;
  std::optional<SaveId> newest_;
  std::uint64_t saves_failed_ = 0, saves_skipped_ = 0;
  std::optional<std::string> last_failure_, worry_;
  std::optional<Error> unreported_, fence_;
  std::vector<std::string> messages_;
  std::optional<Cost> cost_;
};

}  // namespace unbroken
