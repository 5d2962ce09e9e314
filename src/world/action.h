#pragma once
// Store calls as values: what a protocol asks for and what came of it. A protocol is a machine that takes an
// Event and answers with Actions; a driver executes together what is asked for together, and gives events.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"
#include "world/fs.h"

namespace unbroken {

struct GetObject {
  std::string key;
  std::uint64_t bytes_max;
};
struct CreateObject {
  std::string key;
  std::string bytes;
};
/// A write that is on its way before a machine asks for it, so that it overlaps with what makes the bytes.
class BegunWrite {
 public:
  virtual ~BegunWrite() = default;
  /// All of it is durable. Errors: as those of the write.
  virtual Result<> finish() = 0;
};
/// Streams `parts`, in order, as one write-once object, and makes its bytes durable; or finishes what was
/// begun.
struct WriteObject {
  std::string key;
  std::vector<BufferRef> parts;
  std::shared_ptr<BegunWrite> begun = nullptr;
};
struct SyncPrefix {
  std::string prefix;
};
struct ListPrefix {
  std::string prefix;
};
struct RemoveObject {
  std::string key;
};
struct RemoveFolder {
  std::string prefix;
};
/// Reads the object back and hashes it in chunks of `chunk_bytes` (the last may be shorter). One that is not
/// `bytes` long is not read: how much is read and remembered never depends on what a file says of itself.
struct HashObject {
  std::string key;
  std::uint64_t chunk_bytes;
  std::uint64_t bytes;
  std::uint64_t head_bytes;  ///< of the beginning, handed out with the hashes
};
/// Is it there under its name, looked up afresh, and how long is it?
struct StatObject {
  std::string key;
};
/// Advisory; a failure is reported but changes no decision.
struct AdviseObject {
  std::string key;
  std::string bytes;
};
using Action = std::variant<GetObject, CreateObject, WriteObject, SyncPrefix, ListPrefix, RemoveObject,
                            RemoveFolder, HashObject, StatObject, AdviseObject>;

/// `bytes` is empty where the object is not there.
struct GotObject {
  std::string key;
  std::optional<std::string> bytes;
};
struct CreatedObject {
  std::string key;
  Created how;
};
struct WroteObject {
  std::string key;
};
struct SyncedPrefix {
  std::string prefix;
};
struct ListedPrefix {
  std::string prefix;
  std::vector<std::string> names;
};
struct RemovedObject {
  std::string key;
};
struct RemovedFolder {
  std::string prefix;
};
struct HashedObject {
  std::string key;
  std::uint64_t bytes;         ///< as found
  std::vector<Xxh128> chunks;  ///< none where it was not read
  std::string head;
};
/// `bytes` is empty where the object is not there.
struct StatedObject {
  std::string key;
  std::optional<std::uint64_t> bytes;
};
struct AdvisedObject {
  std::string key;
};
/// The action on `key` failed.
struct ActionFailed {
  std::string key;
  Error error;
};
using Event = std::variant<GotObject, CreatedObject, WroteObject, SyncedPrefix, ListedPrefix, RemovedObject,
                           RemovedFolder, HashedObject, StatedObject, AdvisedObject, ActionFailed>;

/// A protocol: event in, actions out, no I/O, no clock, no lock. It is over once it asks for nothing and
/// nothing is outstanding.
class Machine {
 public:
  virtual ~Machine() = default;
  virtual std::vector<Action> start() = 0;
  virtual std::vector<Action> on(const Event& event) = 0;
  virtual bool is_over() const = 0;
};

}  // namespace unbroken
