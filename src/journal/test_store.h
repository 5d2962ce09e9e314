#pragma once
// For the tests of this module: a store in memory that answers actions one by one, keeps a trace of them, and
// lets a test meddle before and after each; and a few ways to fill it.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutant.h"
#include "journal/fold/fold.h"
#include "journal/hint.h"
#include "journal/history.h"
#include "journal/slots.h"
#include "world/action.h"

namespace unbroken {

#ifdef UNBROKEN_WITH_MUTANTS
/// Switches a planted fault on for a scope.
struct WithMutant {
  explicit WithMutant(std::string_view name) { active_mutant = name; }
  ~WithMutant() { active_mutant = {}; }
};
#endif

/// What an action is, for traces: "get 7", "create 7", "sync", "list", "get hint", "hint".
inline std::string told(const Action& action) {
  const auto shortened = [](const std::string& key) {
    if (!key.starts_with(kJournalPrefix)) return key;
    const auto slot = slot_from_name(std::string_view(key).substr(kJournalPrefix.size()));
    return slot ? std::to_string(*slot) : key;
  };
  if (const auto* a = std::get_if<GetObject>(&action)) return "get " + shortened(a->key);
  if (const auto* a = std::get_if<CreateObject>(&action)) return "create " + shortened(a->key);
  if (std::holds_alternative<SyncPrefix>(action)) return "sync";
  if (std::holds_alternative<ListPrefix>(action)) return "list";
  if (std::holds_alternative<AdviseObject>(action)) return "hint";
  if (const auto* a = std::get_if<RemoveObject>(&action)) return "remove " + a->key;
  return "?";
}

class TestStore {
 public:
  /// Before an action: may change the store; an event it returns is the answer, and the action is not done.
  using Before = std::function<std::optional<Event>(const std::string& told)>;
  /// After it: may change the store and the answer.
  using After = std::function<void(const std::string& told, Event& answer)>;

  std::map<std::string, std::string> objects;
  std::vector<std::string> trace;
  Before before;
  After after;
  std::optional<std::vector<std::string>> listing;  ///< what list says instead of the truth

  Event perform(const Action& action) {
    trace.push_back(told(action));
    std::optional<Event> answer = before ? before(trace.back()) : std::nullopt;
    if (!answer) answer = done(action);
    if (after) after(trace.back(), *answer);
    return *answer;
  }

  /// Runs a machine to its end; a hang fails the test.
  template <class M>
  M& run(M& machine) {
    follow(machine, machine.start());
    EXPECT_TRUE(machine.is_over());
    return machine;
  }
  /// Until it asks for nothing more.
  void follow(Machine& machine, std::vector<Action> pending) {
    for (int i = 0; !pending.empty(); ++i) {
      if (i == 10'000) {
        ADD_FAILURE() << "no end";
        break;
      }
      const Event event = perform(pending.front());
      pending.erase(pending.begin());
      for (Action& next : machine.on(event)) pending.push_back(std::move(next));
    }
  }

  std::string& slot(std::uint64_t n) { return objects[slot_key(n)]; }
  bool has_slot(std::uint64_t n) const { return objects.contains(slot_key(n)); }
  void lose_slot(std::uint64_t n) { objects.erase(slot_key(n)); }

 private:
  Event done(const Action& action) {
    if (const auto* get = std::get_if<GetObject>(&action)) {
      const auto it = objects.find(get->key);
      if (it == objects.end()) return GotObject{get->key, std::nullopt};
      if (it->second.size() > get->bytes_max) return ActionFailed{get->key, Error(Code::corrupt, "too long")};
      return GotObject{get->key, it->second};
    }
    if (const auto* create = std::get_if<CreateObject>(&action)) {
      const bool is_new = objects.emplace(create->key, create->bytes).second;
      return CreatedObject{create->key, is_new ? Created::created : Created::exists};
    }
    if (const auto* sync = std::get_if<SyncPrefix>(&action)) return SyncedPrefix{sync->prefix};
    if (const auto* list = std::get_if<ListPrefix>(&action)) {
      if (listing) return ListedPrefix{list->prefix, *listing};
      std::vector<std::string> names;
      for (const auto& [key, bytes] : objects)
        if (key.starts_with(list->prefix)) names.push_back(key.substr(list->prefix.size()));
      return ListedPrefix{list->prefix, names};
    }
    if (const auto* remove = std::get_if<RemoveObject>(&action)) {
      objects.erase(remove->key);
      return RemovedObject{remove->key};
    }
    const auto& advise = std::get<AdviseObject>(action);
    objects[advise.key] = advise.bytes;
    return AdvisedObject{advise.key};
  }
};

inline constexpr const char* kTestRun = "00000000-0000-4000-8000-000000000001";

/// Appends facts straight into a store, as other writers that always win.
class TestJournal {
 public:
  explicit TestJournal(TestStore* into = nullptr) : store(into) {}

  TestStore* store;
  History history;
  std::uint64_t nonce = 1000;

  Result<> try_add(Fact fact) {
    const Record record{history.next_slot(), Nonce{++nonce}, history.head(), 1'700'000'000'000,
                        std::move(fact)};
    UNBROKEN_TRY(const EncodedRecord encoded, encode_record(record));
    UNBROKEN_DO(history.apply(encoded.record, encoded.digest));
    if (store != nullptr) store->slot(record.slot) = encoded.bytes;
    return Done{};
  }
  TestJournal& add(Fact fact) {
    const auto added = try_add(std::move(fact));
    EXPECT_TRUE(added.ok()) << added.error().what();
    return *this;
  }
  /// The SUMMARY of what stands, and its fold.
  TestJournal& summary() {
    const EncodedFold fold = encode_fold(history).value();
    if (store != nullptr) store->objects[fold.key] = fold.bytes;
    return add(fold.summary);
  }
  TestJournal& genesis() { return add(Genesis{kTestRun, 1, {}}); }
  TestJournal& open(std::optional<SaveId> resume = std::nullopt) {
    Open open;
    open.attempt = history.next_attempt();
    open.resume = resume;
    return add(open);
  }
  /// Of the newest attempt.
  SaveId commit(std::uint64_t step, std::string health = "ok") {
    Commit commit;
    commit.save = {step, history.newest_attempt()->open.attempt, 0};
    commit.health = std::move(health);
    add(commit);
    return commit.save;
  }
  SaveId verified(std::uint64_t step) {
    const SaveId save = commit(step);
    add(Verified{save});
    return save;
  }
};

/// Everything that a fold says, as text: equal for equal prefixes.
inline std::string said_by(const History& history) {
  return encode_fold(history).value().bytes;
}

inline Quarantine damage(const SaveId& save, std::string host = "n1") {
  Quarantine q;
  q.save = save;
  q.object = "shard";
  q.host = std::move(host);
  return q;
}

}  // namespace unbroken
