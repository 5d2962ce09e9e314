#include "commit/collect.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutant.h"
#include "base/point.h"
#include "commit/decide.h"
#include "commit/sub_append.h"
#include "format/keys.h"
#include "journal/fence.h"
#include "journal/fold/fold.h"
#include "journal/retention.h"

namespace unbroken {

namespace {

/// Of one DELETED record, which has to stay below 4 KiB.
constexpr std::size_t kDeletedMax = 32;

/// Data first, the manifest last: what is left still says what it was.
int removal_rank(const DataName& name) {
  switch (name.kind) {
    case DataName::Kind::shard:
    case DataName::Kind::index:
    case DataName::Kind::sums:
      return 0;
    case DataName::Kind::receipt:
      return 1;
    case DataName::Kind::manifest:
      return 2;
  }
  return 3;
}

/// Somebody put something else in place of an object or of its folder: nothing of it is ours to remove, and
/// it must not keep the rest.
bool is_strange(const Error& error) {
  return error.code() == Code::bad_argument || error.code() == Code::corrupt;
}

}  // namespace

struct Collect::Impl {
  enum class State : std::uint8_t {
    intending,
    listing,
    listing_folder,
    removing,
    removing_folder,
    deleting,
    listing_folds,
    removing_folds,
    over
  };

  Impl(History h, std::optional<OpenRef> m, std::int64_t at, std::function<Nonce()> d, Choose c)
      : history(std::move(h)), mine(m), at_unix_ms(at), draw(std::move(d)), choose(std::move(c)) {}

  std::vector<Action> fail(Error why) {
    error = std::move(why);
    state = State::over;
    return {};
  }

  std::vector<Action> start_append(State next, Decide decide) {
    state = next;
    if (mine) decide = while_newest(mine->slot, mine->sha256, std::move(decide));
    return append.start(history, draw(), at_unix_ms, std::move(decide));
  }

  std::vector<Action> intend() {
    return start_append(State::intending, [this](const History& prefix) -> Result<Decision> {
      UNBROKEN_TRY(const std::optional<SaveId> victim, choose(prefix));
      if (!victim) return Decision(Stand{});
      return Decision(Fact(Intent{*victim}));
    });
  }

  std::vector<Action> list() {
    state = State::listing;
    return {ListPrefix{std::string(kDataPrefix)}};
  }

  bool is_removable(const SaveId& save) const {
    if (UNBROKEN_MUTANT("age_based_orphans") && !history.find(save)) return true;
    if (UNBROKEN_MUTANT("gc_without_sync") && next_victim(history) == save) return true;
    return history.is_dead(save);
  }

  std::vector<Action> next_folder() {
    keys.clear();
    if (folders.empty()) return append_deleted();
    state = State::listing_folder;
    return {ListPrefix{save_prefix(folders.back())}};
  }

  std::vector<Action> leave_folder() {
    left.push_back(folders.back());
    folders.pop_back();
    return next_folder();
  }

  std::vector<Action> next_object() {
    if (!keys.empty()) {
      state = State::removing;
      UNBROKEN_POINT("collect.before_remove");
      return {RemoveObject{keys.back()}};
    }
    state = State::removing_folder;
    return {RemoveFolder{save_prefix(folders.back())}};
  }

  std::vector<Action> append_deleted() {
    gone.clear();
    for (const Checkpoint& c : history.checkpoints()) {
      if (!c.is_intended || gone.size() == kDeletedMax) continue;
      const bool is_left = std::find(left.begin(), left.end(), c.commit.save) != left.end();
      if (!is_left) gone.push_back(c.commit.save);
    }
    if (gone.empty()) return list_folds();
    return start_append(State::deleting, [this](const History& prefix) -> Result<Decision> {
      std::erase_if(gone,
                    [&](const SaveId& save) { return prefix.find(save) == nullptr; });  // said by others
      if (gone.empty()) return Decision(Stand{});
      return Decision(Fact(Deleted{gone}));
    });
  }

  std::vector<Action> list_folds() {
    state = history.folds().empty() ? State::over : State::listing_folds;
    if (state == State::over) return {};
    return {ListPrefix{std::string(kFoldPrefix)}};
  }

  /// The slot of a SUMMARY is written once: what it does not name in a prefix that is durable, it never will.
  bool is_obsolete_fold(const std::string& name) const {
    const auto slot = slot_of_fold(name);
    if (!slot || (*slot >= history.next_slot() && !UNBROKEN_MUTANT("pending_folds_removed"))) return false;
    const auto& kept = history.folds();
    return std::none_of(kept.begin(), kept.end(),
                        [&](const FoldRef& ref) { return fold_key(ref) == std::string(kFoldPrefix) + name; });
  }

  std::vector<Action> next_fold() {
    state = keys.empty() ? State::over : State::removing_folds;
    if (keys.empty()) return {};
    UNBROKEN_POINT("collect.before_fold");
    return {RemoveObject{keys.back()}};
  }

  std::vector<Action> on_appended(Result<Appended> appended) {
    if (!appended.ok()) return fail(std::move(appended).error());
    history = std::move(appended.value().history);
    if (state == State::deleting) return list_folds();
    if (!appended.value().record) return list();
    condemned.push_back(std::get<Intent>(appended.value().record->fact).save);
    UNBROKEN_POINT("collect.intended");
    return intend();
  }

  std::vector<Action> on_listed_folder(const ListedPrefix& listed) {
    std::vector<std::pair<int, std::string>> ranked;
    const std::string prefix = save_prefix(folders.back());
    for (const std::string& name : listed.names)
      if (const auto data = data_name_from(name)) ranked.emplace_back(removal_rank(*data), prefix + name);
    std::sort(ranked.begin(), ranked.end(), std::greater<>());  // taken from the back
    for (auto& [rank, key] : ranked) keys.push_back(std::move(key));
    return next_object();
  }

  History history;
  std::optional<OpenRef> mine;
  std::int64_t at_unix_ms;
  std::function<Nonce()> draw;
  Choose choose;
  State state = State::intending;
  SubAppend append;
  std::vector<SaveId> folders;    // still to do, taken from the back
  std::vector<std::string> keys;  // of the folder at the back
  std::vector<SaveId> condemned, removed, left, gone;
  std::optional<Error> error;
};

Collect::Collect(History history, std::optional<OpenRef> mine, std::int64_t at_unix_ms,
                 std::function<Nonce()> draw, Choose choose)
    : impl_(
          std::make_unique<Impl>(std::move(history), mine, at_unix_ms, std::move(draw), std::move(choose))) {}
Collect::~Collect() = default;

std::vector<Action> Collect::start() {
  return UNBROKEN_MUTANT("gc_without_sync") ? impl_->list() : impl_->intend();
}

std::vector<Action> Collect::on(const Event& event) {
  using State = Impl::State;
  Impl& me = *impl_;
  const auto* failed = std::get_if<ActionFailed>(&event);
  switch (me.state) {
    case State::intending:
    case State::deleting:
      return me.append.on(event, [&](auto appended) { return me.on_appended(std::move(appended)); });
    case State::listing:
      if (failed != nullptr) return me.fail(failed->error);
      for (const std::string& name : std::get<ListedPrefix>(event).names)
        if (const auto save = save_from_name(name); save && me.is_removable(*save))
          me.folders.push_back(*save);
      return me.next_folder();
    case State::listing_folder:
      if (failed != nullptr && is_strange(failed->error)) return me.leave_folder();
      if (failed != nullptr) return me.fail(failed->error);
      return me.on_listed_folder(std::get<ListedPrefix>(event));
    case State::removing:
      if (failed != nullptr && is_strange(failed->error)) return me.leave_folder();
      if (failed != nullptr) return me.fail(failed->error);
      me.keys.pop_back();
      return me.next_object();
    case State::removing_folder: {
      const SaveId save = me.folders.back();
      me.folders.pop_back();
      (failed == nullptr ? me.removed : me.left).push_back(save);
      return me.next_folder();
    }
    case State::listing_folds:
      // Whatever keeps a fold where it is, it is in nobody's way: the next collection tries again.
      if (failed == nullptr)
        for (const std::string& name : std::get<ListedPrefix>(event).names)
          if (me.is_obsolete_fold(name)) me.keys.push_back(std::string(kFoldPrefix) + name);
      return me.next_fold();
    case State::removing_folds:
      me.keys.pop_back();
      return me.next_fold();
    case State::over:
      break;
  }
  UNBROKEN_CHECK(false);
}

bool Collect::is_over() const {
  return impl_->state == Impl::State::over;
}

Result<Collect::Collected> Collect::take() {
  UNBROKEN_CHECK(is_over());
  Impl& me = *impl_;
  if (me.error) return std::move(*me.error);
  return Collected{std::move(me.history), std::move(me.condemned), std::move(me.removed)};
}

}  // namespace unbroken
