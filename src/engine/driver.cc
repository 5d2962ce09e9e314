#include "engine/driver.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/bulk.h"
#include "engine/write/write_object.h"
#include "world/parallel.h"

namespace unbroken {

namespace {

class Execute {
 public:
  Execute(const Seams& seams, const Deadline& by) : seams_(seams), by_(by) {}

  Event operator()(const GetObject& a) const {
    auto bytes = seams_.store.get(a.key, a.bytes_max, by_);
    if (bytes.ok()) return GotObject{a.key, std::move(bytes).value()};
    if (bytes.is(Code::not_found)) return GotObject{a.key, std::nullopt};
    return ActionFailed{a.key, std::move(bytes).error()};
  }
  Event operator()(const CreateObject& a) const {
    return answer(a.key, seams_.store.create(a.key, as_bytes(a.bytes), by_),
                  [&](Created how) { return CreatedObject{a.key, how}; });
  }
  Event operator()(const WriteObject& a) const {
    return answer(a.key, a.begun ? a.begun->finish() : write_object(seams_, a.key, a.parts, by_),
                  [&](Done) { return WroteObject{a.key}; });
  }
  Event operator()(const SyncPrefix& a) const {
    return answer(a.prefix, seams_.store.sync(a.prefix, by_), [&](Done) { return SyncedPrefix{a.prefix}; });
  }
  Event operator()(const ListPrefix& a) const {
    return answer(a.prefix, seams_.store.list(a.prefix, by_),
                  [&](std::vector<std::string> names) { return ListedPrefix{a.prefix, std::move(names)}; });
  }
  Event operator()(const RemoveObject& a) const {
    return answer(a.key, seams_.store.remove(a.key, by_), [&](Done) { return RemovedObject{a.key}; });
  }
  Event operator()(const RemoveFolder& a) const {
    return answer(a.prefix, seams_.store.remove_folder(a.prefix, by_),
                  [&](Done) { return RemovedFolder{a.prefix}; });
  }
  Event operator()(const HashObject& a) const {
    return answer(a.key, hash_object(seams_, a, by_), [](HashedObject hashed) { return hashed; });
  }
  Event operator()(const StatObject& a) const {
    const auto reader = seams_.store.open_reader(a.key, by_);
    if (reader.ok()) return StatedObject{a.key, reader.value()->bytes()};
    if (reader.is(Code::not_found)) return StatedObject{a.key, std::nullopt};
    return ActionFailed{a.key, reader.error()};
  }
  Event operator()(const AdviseObject& a) const {
    // Advisory: a failure changes no decision.
    (void)seams_.store.advise(a.key, as_bytes(a.bytes), by_);
    return AdvisedObject{a.key};
  }

 private:
  template <class T, class Make>
  static Event answer(const std::string& key, Result<T> result, Make make) {
    if (!result.ok()) return ActionFailed{key, std::move(result).error()};
    return make(std::move(result).value());
  }

  const Seams& seams_;
  const Deadline& by_;
};

}  // namespace

Event execute(const Seams& seams, const Action& action, const Deadline& by) {
  return std::visit(Execute(seams, by), action);
}

namespace {

/// Actions that were asked for together, several at once.
std::vector<Event> execute_all(const Seams& seams, const std::vector<Action>& actions, const Deadline& by) {
  std::vector<std::optional<Event>> answers(actions.size());
  const auto done = parallel_for(seams.executor, Lane::io, actions.size(), [&](std::size_t i) -> Result<> {
    answers[i] = execute(seams, actions[i], by);
    return Done{};  // a failure is an event like any other
  });
  if (!done.ok()) throw CheckFailed(done.error().what());
  std::vector<Event> events;
  for (std::optional<Event>& answer : answers) events.push_back(std::move(*answer));
  return events;
}

}  // namespace

void drive(const Seams& seams, Machine& machine, const Deadline& by) {
  std::vector<Action> pending = machine.start();
  while (!pending.empty() && !machine.is_over()) {
    std::vector<Action> next;
    for (const Event& event : execute_all(seams, std::exchange(pending, {}), by))
      for (Action& action : machine.on(event)) next.push_back(std::move(action));
    pending = std::move(next);
  }
}

}  // namespace unbroken
