#include "sim/sim_store.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "sim/sim_process.h"
#include "sim/sim_world.h"

namespace unbroken {
namespace {

std::string_view without_slash(std::string_view prefix) {
  return prefix.ends_with('/') ? prefix.substr(0, prefix.size() - 1) : prefix;
}

Error failed(SimOp op, std::string_view key, std::string_view why, Code code = Code::unavailable) {
  return {code, fmt::format("{} {}: {}", name_of(op), key, why)};
}

/// A prefix is there as long as an object is.
bool has_objects(const SimDisk& disk, const std::string& path) {
  const auto info = disk.info(path);
  if (!info.ok()) return false;
  if (!info.value().is_directory) return true;
  const auto names = disk.list(path);
  if (!names.ok()) return false;
  for (const std::string& name : names.value()) {
    if (has_objects(disk, path + "/" + name)) return true;
  }
  return false;
}

}  // namespace

/// One request: scheduled, perhaps failed by plan, done, noted. `call` is told what else is to go wrong.
template <class T, class Call>
Result<T> SimStore::request(SimOp op, std::string_view key, const Deadline& by, const Call& call) const {
  if (by.stop.stop_requested()) return failed(op, key, "asked to stop", Code::stopped);
  if (process_.clock().now() >= by.at) return failed(op, key, "the deadline passed", Code::late);
  UNBROKEN_TRY(const Fault fault, process_.enter(op, key));
  if (process_.clock().now() >= by.at) return failed(op, key, "the deadline passed", Code::late);
  const auto result = [&]() -> Result<T> {
    switch (fault.kind) {
      case FaultKind::none:
      case FaultKind::hang:
      case FaultKind::stale_list:
      case FaultKind::answer_lost_done:
      case FaultKind::answer_lost_undone:
      case FaultKind::answer_lost_late:
      case FaultKind::twice:
      case FaultKind::flips_bit:
        return call(fault);
      case FaultKind::no_space:
        return failed(op, key, "507", Code::no_space);
      default:
        return failed(op, key, "503");
    }
  }();
  const std::uint64_t outcome = result.ok() ? 0 : 1 + static_cast<std::uint64_t>(result.error().code());
  process_.leave(op, key, outcome);
  return result;
}

Capabilities SimStore::capabilities() const {
  return {.exclusive_create = true, .survives_node = true, .survives_process = true};
}

/// The request is applied once more some time from now, whoever is alive then.
void SimStore::put_later(std::string_view key, Bytes data) {
  SimWorld& world = process_.world();
  const Duration delay(static_cast<Duration::rep>(world.faults().random().below(2'000'000'000)));
  world.call_at(world.now() + delay, [&world, name = std::string(key), bytes = std::string(as_text(data))] {
    world.note(SIZE_MAX, "late put", name);
    static_cast<void>(world.disk().put(name, bytes, false).ok());
  });
}

Result<Created> SimStore::put(std::string_view key, Bytes data, bool replaces, const Deadline& by) {
  UNBROKEN_DO(check_key(key));
  return request<Created>(SimOp::put, key, by, [&](const Fault& fault) -> Result<Created> {
    SimDisk& disk = process_.world().disk();
    if (fault.kind == FaultKind::answer_lost_undone) return Created::unknown;
    if (fault.kind == FaultKind::answer_lost_late || fault.kind == FaultKind::twice) {
      if (!replaces) put_later(key, data);
      if (fault.kind == FaultKind::answer_lost_late) return Created::unknown;
    }
    auto how = disk.put(key, std::string(as_text(data)), replaces);
    process_.world().mix(xxh128(data).low);
    if (how.ok() && fault.kind == FaultKind::answer_lost_done) return Created::unknown;
    return how;
  });
}

Result<Created> SimStore::create(std::string_view key, Bytes data, const Deadline& by) {
  return put(key, data, false, by);
}

/// Collects the parts in memory; finish() is the request that makes the object.
class SimStore::Writer final : public ObjectWriter {
 public:
  Writer(SimStore& store, std::string_view key, std::uint64_t bytes)
      : store_(store), key_(key), content_(bytes, '\0') {}
  void write(std::uint64_t offset, BufferRef data, Completion done) override {
    const Bytes bytes = data.bytes();
    if (offset > content_.size() || bytes.size() > content_.size() - offset) {
      return done(failed(SimOp::put, key_, "a part is beyond the stated size", Code::bad_argument));
    }
    const Deadline never{Instant{Duration::max()}, {}};
    auto wrote = store_.request<Done>(SimOp::write, key_, never, [&](const Fault& fault) -> Result<> {
      if (fault.kind == FaultKind::answer_lost_undone) return failed(SimOp::write, key_, "timed out");
      if (!bytes.empty()) std::memcpy(content_.data() + offset, bytes.data(), bytes.size());
      written_ += bytes.size();
      return Done{};
    });
    done(std::move(wrote));
  }
  Result<> finish(const Deadline& by) override {
    if (std::exchange(is_finished_, true)) return failed(SimOp::put, key_, "finished twice", Code::bug);
    if (written_ < content_.size()) return failed(SimOp::put, key_, "a part is missing", Code::bug);
    UNBROKEN_TRY(const Created how, store_.put(key_, as_bytes(content_), false, by));
    if (how == Created::created) return Done{};
    // The name is ours alone: whole under it means that an answer of ours was lost.
    const auto seen = store_.process_.world().disk().peek(key_);
    if (how == Created::unknown && seen == content_) return Done{};
    return failed(SimOp::put, key_, how == Created::exists ? "412" : "no answer");
  }

 private:
  SimStore& store_;
  std::string key_;
  std::string content_;
  std::uint64_t written_ = 0;
  bool is_finished_ = false;
};

Result<std::unique_ptr<ObjectWriter>> SimStore::open_writer(std::string_view key, std::uint64_t bytes,
                                                            const Deadline& by) {
  UNBROKEN_DO(check_key(key));
  UNBROKEN_DO(request<Done>(SimOp::create_excl, key, by, [&](const Fault&) -> Result<> {
    if (process_.world().disk().exists(key)) return failed(SimOp::create_excl, key, "412");
    return Done{};
  }));
  return std::unique_ptr<ObjectWriter>(std::make_unique<Writer>(*this, key, bytes));
}

Result<std::string> SimStore::fetch(std::string_view key, const Deadline& by) const {
  UNBROKEN_DO(check_key(key));
  return request<std::string>(SimOp::get, key, by, [&](const Fault& fault) -> Result<std::string> {
    auto bytes = process_.world().disk().peek(key);
    if (!bytes) return failed(SimOp::get, key, "404", Code::not_found);
    if (fault.kind == FaultKind::flips_bit && !bytes->empty()) {
      SimRandom& random = process_.world().faults().random();
      char& hit = (*bytes)[random.below(bytes->size())];
      hit = static_cast<char>(hit ^ static_cast<char>(1u << random.below(8)));
    }
    return *std::move(bytes);
  });
}

Result<std::string> SimStore::get(std::string_view key, std::uint64_t bytes_max, const Deadline& by) const {
  UNBROKEN_TRY(std::string bytes, fetch(key, by));
  if (bytes.size() > bytes_max) return failed(SimOp::get, key, "longer than it may be", Code::corrupt);
  return bytes;
}

/// Every read is a request by name.
class SimStore::Reader final : public ObjectReader {
 public:
  Reader(const SimStore& store, std::string_view key, std::uint64_t bytes)
      : store_(store), key_(key), bytes_(bytes) {}
  std::uint64_t bytes() const override { return bytes_; }
  Result<> read(std::uint64_t offset, MutableBytes into) const override {
    const Deadline never{Instant{Duration::max()}, {}};
    UNBROKEN_TRY(const std::string bytes, store_.fetch(key_, never));
    if (offset > bytes.size() || into.size() > bytes.size() - offset) {
      return failed(SimOp::get, key_, "ends before", Code::corrupt);
    }
    if (!into.empty()) std::memcpy(into.data(), bytes.data() + offset, into.size());
    return Done{};
  }

 private:
  const SimStore& store_;
  std::string key_;
  std::uint64_t bytes_;
};

Result<std::unique_ptr<ObjectReader>> SimStore::open_reader(std::string_view key, const Deadline& by) const {
  UNBROKEN_TRY(const std::string bytes, fetch(key, by));
  return std::unique_ptr<ObjectReader>(std::make_unique<Reader>(*this, key, bytes.size()));
}

Result<std::vector<std::string>> SimStore::list(std::string_view prefix, const Deadline& by) const {
  const std::string folder(without_slash(prefix));
  if (!folder.empty()) UNBROKEN_DO(check_key(folder));
  return request<std::vector<std::string>>(
      SimOp::list, prefix, by, [&](const Fault& fault) -> Result<std::vector<std::string>> {
        SimWorld& world = process_.world();
        const bool is_stale = fault.kind == FaultKind::stale_list;
        auto names = world.disk().list(folder, is_stale ? &world.faults().random() : nullptr);
        if (names.is(Code::not_found)) return std::vector<std::string>{};
        if (!names.ok() || is_stale) return names;
        std::erase_if(names.value(), [&](const std::string& name) {
          return !has_objects(world.disk(), folder.empty() ? name : folder + "/" + name);
        });
        return names;
      });
}

Result<> SimStore::remove(std::string_view key, const Deadline& by) {
  UNBROKEN_DO(check_key(key));
  return request<Done>(SimOp::remove, key, by, [&](const Fault& fault) -> Result<> {
    if (fault.kind == FaultKind::answer_lost_undone) return failed(SimOp::remove, key, "timed out");
    auto removed = process_.world().disk().unlink(key);
    if (fault.kind == FaultKind::answer_lost_done) return failed(SimOp::remove, key, "timed out");
    if (removed.is(Code::not_found)) return Done{};
    return removed;
  });
}

Result<> SimStore::remove_folder(std::string_view prefix, const Deadline& by) {
  UNBROKEN_DO(check_key(without_slash(prefix)));
  return request<Done>(SimOp::remove_dir, prefix, by, [](const Fault&) -> Result<> { return Done{}; });
}

Result<> SimStore::sync(std::string_view prefix, const Deadline& by) {
  if (!prefix.empty()) UNBROKEN_DO(check_key(without_slash(prefix)));
  return request<Done>(SimOp::sync_dir, prefix, by, [&](const Fault&) -> Result<> {
    auto synced = process_.world().disk().sync_dir(without_slash(prefix));
    if (synced.is(Code::not_found)) return Done{};
    return synced;
  });
}

Result<> SimStore::advise(std::string_view key, Bytes data, const Deadline& by) {
  UNBROKEN_TRY(const Created how, put(key, data, true, by));
  if (how == Created::unknown) return failed(SimOp::put, key, "no answer");
  return Done{};
}

Result<> SimStore::append(std::string_view key, Bytes data, const Deadline& by) {
  auto old = fetch(key, by);
  if (!old.ok() && !old.is(Code::not_found)) return std::move(old).error();
  std::string bytes = old.ok() ? std::move(old).value() : std::string{};
  bytes.append(as_text(data));
  return advise(key, as_bytes(bytes), by);
}

Result<std::uint64_t> SimStore::free_bytes(const Deadline& by) const {
  return request<std::uint64_t>(SimOp::free_bytes, "", by, [&](const Fault&) {
    return Result<std::uint64_t>(process_.world().disk().free_bytes());
  });
}

}  // namespace unbroken
