#pragma once
// The sole writer of slots (rule R3). Every record is decided on the exact prefix that it extends:
//   1. read forward to the head; sync the journal: what the decision rests on is durable, whoever wrote it;
//   2. re-read slot n-1 by name: absent or different means that the storage lost names underneath: fold
//      again, once;
//   3. decide on the prefix 0..n-1;
//   4. create slot n; after every answer but "created" read n: another record means that somebody was first,
//      go to 1;
//   5. sync; re-read n: mine means done, else go to 1. With it slot 0 is read: a journal without it lost
//      records, whatever was found of it; fold again, as in 2. So it is read where nothing is appended. Then
//      the advisory hint is written.
// Where a SUMMARY is due in slot n (rule R12), the fold of 0..n-1 is made durable and read back first, then
// its record is appended by the same steps, and the own one is decided anew. A fold that cannot be stored is
// left out: its slot then holds any other record. Only then may the caller acknowledge, delete, or act as
// owner. With nobody else about this costs five reads by name (two of slots that are not there, the last two
// together), two syncs, one create and the hint.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "journal/history.h"
#include "world/action.h"

namespace unbroken {

/// decide(): do not append; the caller reads why from its own state. decide() may be asked several times,
/// each time with a longer prefix.
struct Stand {};
using Decision = std::variant<Fact, Stand>;
using Decide = std::function<Result<Decision>(const History&)>;

struct Appended {
  History history;  ///< the fold up to and with the record, or up to the head where it stood down
  std::optional<Record> record;  ///< nullopt: decide() stood down
  Sha256 digest;                 ///< of the record
  std::string hint;              ///< of an append in two parts: to be written to kHintKey
};

class Append final : public Machine {
 public:
  enum class Parts : std::uint8_t {
    one,
    two,  ///< steps 3 to 5 after go_on(); over once the record stands, before the hint
  };
  /// `writer` is drawn afresh for every append. `at_unix_ms` is for people.
  Append(History history, Nonce writer, std::int64_t at_unix_ms, Decide decide, Parts parts = Parts::one);
  ~Append() override;
  std::vector<Action> start() override;
  std::vector<Action> on(const Event& event) override;
  bool is_over() const override;
  /// Once, of an append in two parts: all that has to stand before the record does. Step 3 decides on the
  /// prefix of steps 1 and 2, which no record can have followed where slot n is still free.
  std::vector<Action> go_on();
  /// False as long as no record that decide() asked for can stand in the journal, nor come to
  /// stand there.
  bool may_stand() const;
  /// After is_over(), once. After an error the record may stand all the same, or come to stand: only what is
  /// read later tells. Errors: whatever decide() returned (fenced ...); journal_unreadable; unsupported;
  /// unavailable, no_space, late, stopped from the storage, unavailable also where others were first 64
  /// times; bad_argument (does not fit a record); bug (the record would contradict its prefix).
  Result<Appended> take();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace unbroken
