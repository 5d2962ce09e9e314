#include "sim/sim_fs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/sim_process.h"
#include "sim/sim_world.h"

namespace unbroken {
namespace {

constexpr std::uint32_t kSlotBits = 14;
constexpr std::uint64_t kWritePiecesMax = 4;

Error planned_error(FaultKind kind, SimOp op, std::string_view path) {
  const auto make = [&](Code code, std::string_view why) {
    return Error(code, fmt::format("{} {}: {}", name_of(op), path, why));
  };
  switch (kind) {
    case FaultKind::no_space:
      return make(Code::no_space, "ENOSPC");
    case FaultKind::stale_handle:
      return make(Code::unavailable, "ESTALE");
    case FaultKind::read_only:
      return make(Code::unavailable, "EROFS");
    case FaultKind::answer_lost_done:
    case FaultKind::answer_lost_undone:
      return make(Code::unavailable, "ETIMEDOUT");
    default:
      return make(Code::unavailable, "EIO");
  }
}

bool is_failure(FaultKind kind) {
  return kind != FaultKind::none && kind != FaultKind::hang && kind != FaultKind::stale_list &&
         kind != FaultKind::answer_lost_done && kind != FaultKind::answer_lost_undone &&
         kind != FaultKind::sync_loses && kind != FaultKind::flips_bit;
}

template <class T>
std::uint64_t outcome_of(const Result<T>& result) {
  if (!result.ok()) return 1 + static_cast<std::uint64_t>(result.error().code());
  if constexpr (std::is_same_v<T, std::uint64_t>) return 1000 + result.value();
  if constexpr (std::is_same_v<T, Created>) return 100 + static_cast<std::uint64_t>(result.value());
  if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    std::uint64_t h = 2000 + result.value().size();
    for (const std::string& name : result.value()) h = mix64(h ^ xxh128(as_bytes(name)).low);
    return h;
  }
  return 0;
}

}  // namespace

SimFs::~SimFs() {
  close_all();
}

/// One call: scheduled, perhaps failed by plan, done, noted.
template <class T, class Call>
Result<T> SimFs::run(SimOp op, std::string_view path, const Call& call) const {
  if (process_ == nullptr) return call(Fault{});
  UNBROKEN_TRY(const Fault fault, process_->enter(op, path));
  const bool is_lost =
      fault.kind == FaultKind::answer_lost_done || fault.kind == FaultKind::answer_lost_undone;
  const auto result = [&]() -> Result<T> {
    if (is_failure(fault.kind)) return planned_error(fault.kind, op, path);
    if (!is_lost) return call(fault);
    if (fault.kind == FaultKind::answer_lost_done) static_cast<void>(call(fault).ok());
    if constexpr (std::is_same_v<T, Created>) return Created::unknown;
    return planned_error(fault.kind, op, path);
  }();
  process_->leave(op, path, outcome_of(result));
  return result;
}

SimFs::Handle* SimFs::find(FileId file) const {
  const auto id = static_cast<std::uint32_t>(file);
  const std::uint32_t slot = id & ((1u << kSlotBits) - 1);
  if (slot >= handles_.size()) return nullptr;
  Handle& handle = handles_[slot];
  return handle.node && handle.generation == id >> kSlotBits ? &handle : nullptr;
}

template <class T, class Call>
Result<T> SimFs::run_on(SimOp op, FileId file, const Call& call) const {
  const Handle* const known = find(file);
  const auto kept = known ? known->path : nullptr;
  const std::string_view path = kept ? std::string_view(*kept) : "(closed file)";
  return run<T>(op, path, [&](const Fault& fault) -> Result<T> {
    Handle* const handle = find(file);
    if (handle == nullptr) {
      if (process_ != nullptr) process_->world().fail(fmt::format("{} uses a closed file", process_->name()));
      return Error(Code::unavailable, fmt::format("{}: EBADF", name_of(op)));
    }
    if (handle->node->is_stale) return planned_error(FaultKind::stale_handle, op, path);
    return call(*handle, fault);
  });
}

Result<FileId> SimFs::open_handle(SimNodeRef node, std::string_view path, bool is_writable) const {
  std::uint32_t slot = 0;
  if (spare_.empty()) {
    slot = static_cast<std::uint32_t>(handles_.size());
    if (slot >= 1u << kSlotBits) {
      disk_.close(*node);
      return Error(Code::unavailable, fmt::format("open {}: EMFILE", path));
    }
    handles_.emplace_back();
  } else {
    slot = spare_.back();
    spare_.pop_back();
  }
  Handle& handle = handles_[slot];
  handle.node = std::move(node);
  handle.path = std::make_shared<const std::string>(path);
  handle.is_writable = is_writable;
  handle.is_failed = false;
  handle.generation = (handle.generation + 1) & 0x1ffff;
  ++open_count_;
  return static_cast<FileId>(handle.generation << kSlotBits | slot);
}

void SimFs::close_all() {
  for (Handle& handle : handles_) {
    if (handle.node) disk_.close(*std::exchange(handle.node, nullptr));
  }
  open_count_ = 0;
}

Result<FileId> SimFs::create_excl(std::string_view path) {
  return run<FileId>(SimOp::create_excl, path, [&](const Fault&) -> Result<FileId> {
    UNBROKEN_TRY(SimNodeRef node, disk_.create_excl(path));
    return open_handle(std::move(node), path, true);
  });
}

Result<FileId> SimFs::open_read(std::string_view path) const {
  return run<FileId>(SimOp::open_read, path, [&](const Fault&) -> Result<FileId> {
    UNBROKEN_TRY(SimNodeRef node, disk_.open(path));
    return open_handle(std::move(node), path, false);
  });
}

/// A write of several blocks is not one event: a crash or a reader may fall between its pieces.
Result<> SimFs::write_now(FileId file, std::uint64_t offset, Bytes data) {
  constexpr std::uint64_t kBlock = SimDisk::kBlockBytes;
  const std::uint64_t blocks = (data.size() + kBlock - 1) / kBlock;
  const std::uint64_t piece_bytes =
      std::max<std::uint64_t>(1, (blocks + kWritePiecesMax - 1) / kWritePiecesMax) * kBlock;
  do {
    const Bytes piece = data.first(std::min<std::size_t>(data.size(), piece_bytes));
    UNBROKEN_DO(run_on<Done>(SimOp::write, file, [&](Handle& handle, const Fault&) -> Result<> {
      if (!handle.is_writable) return Error(Code::unavailable, fmt::format("write {}: EBADF", *handle.path));
      auto wrote = disk_.write(*handle.node, offset, piece);
      if (!wrote.ok()) return std::move(wrote).error().with(*handle.path);
      if (process_ != nullptr) process_->world().mix(offset ^ xxh128(piece).low);
      return Done{};
    }));
    offset += piece.size();
    data = data.subspan(piece.size());
  } while (!data.empty());
  return Done{};
}

void SimFs::write_at(FileId file, std::uint64_t offset, BufferRef data, Completion done) {
  if (process_ == nullptr || process_->is_ending() || !process_->world().is_write_async()) {
    done(write_now(file, offset, data.bytes()));
    return;
  }
  in_flight_.push_back(file);
  writes_.push_back({file, offset, std::move(data), std::move(done)});
  if (!has_device_) {
    has_device_ = true;
    process_->start_thread([this] { device(); });
  } else if (idle_device_ != nullptr) {
    process_->world().scheduler().wake(*std::exchange(idle_device_, nullptr));
  }
}

/// Completes writes in any order, as the kernel's queue may.
void SimFs::device() {
  Scheduler& scheduler = process_->world().scheduler();
  for (;;) {
    while (!writes_.empty()) {
      const std::size_t at = process_->world().device_random().below(writes_.size());
      std::swap(writes_[at], writes_.back());
      Write write = std::move(writes_.back());
      writes_.pop_back();
      write.done(write_now(write.file, write.offset, write.data.bytes()));
      in_flight_.erase(std::find(in_flight_.begin(), in_flight_.end(), write.file));
      for (SimThread* const thread : settling_) scheduler.wake(*thread);
    }
    if (process_->is_ending()) return;
    idle_device_ = scheduler.running();
    scheduler.block(std::nullopt);
  }
}

void SimFs::settle(FileId file) {
  if (process_ == nullptr) return;
  Scheduler& scheduler = process_->world().scheduler();
  if (!process_->is_ending()) scheduler.yield();
  SimThread* const self = scheduler.running();
  while (std::find(in_flight_.begin(), in_flight_.end(), file) != in_flight_.end()) {
    if (process_->is_ending()) {
      scheduler.step_back();  // the device calls every completion while it ends
      continue;
    }
    settling_.push_back(self);
    scheduler.block(std::nullopt);
    std::erase(settling_, self);
  }
}

Result<std::uint64_t> SimFs::read_at(FileId file, std::uint64_t offset, MutableBytes into) const {
  return run_on<std::uint64_t>(SimOp::read, file, [&](Handle& handle, const Fault& fault) {
    auto got = disk_.read(*handle.node, offset, into);
    if (fault.kind == FaultKind::flips_bit && got.ok() && got.value() > 0) {
      SimRandom& random = process_->world().faults().random();
      into[random.below(got.value())] ^= std::byte{1} << random.below(8);
    }
    return got;
  });
}

Result<std::uint64_t> SimFs::size(FileId file) const {
  return run_on<std::uint64_t>(SimOp::size, file, [&](Handle& handle, const Fault&) {
    return Result<std::uint64_t>(std::uint64_t{handle.node->now.size()});
  });
}

Result<> SimFs::sync(FileId file) {
  return run_on<Done>(SimOp::sync, file, [&](Handle& handle, const Fault& fault) -> Result<> {
    if (fault.kind == FaultKind::sync_loses) {
      disk_.fail_sync(*handle.node);
      return planned_error(FaultKind::eio, SimOp::sync, *handle.path);
    }
    disk_.sync(*handle.node);
    return Done{};
  });
}

/// A close that fails has closed all the same.
Result<> SimFs::close(FileId file) const {
  auto closed = run_on<Done>(SimOp::close, file, [&](Handle&, const Fault&) -> Result<> { return Done{}; });
  if (closed.is(Code::stopped)) return closed;
  if (Handle* const handle = find(file); handle != nullptr) {
    disk_.close(*std::exchange(handle->node, nullptr));
    spare_.push_back(static_cast<std::uint32_t>(file) & ((1u << kSlotBits) - 1));
    --open_count_;
  }
  return closed;
}

Result<Created> SimFs::link(std::string_view from, std::string_view to) {
  return run<Created>(SimOp::link, to, [&](const Fault&) { return disk_.link(from, to); });
}

Result<> SimFs::rename(std::string_view from, std::string_view to) {
  return run<Done>(SimOp::rename, to, [&](const Fault&) { return disk_.rename(from, to); });
}

Result<> SimFs::unlink(std::string_view path) {
  return run<Done>(SimOp::unlink, path, [&](const Fault&) { return disk_.unlink(path); });
}

Result<Created> SimFs::make_dir(std::string_view path) {
  return run<Created>(SimOp::make_dir, path, [&](const Fault&) { return disk_.make_dir(path); });
}

Result<> SimFs::remove_dir(std::string_view path) {
  return run<Done>(SimOp::remove_dir, path, [&](const Fault&) { return disk_.remove_dir(path); });
}

Result<> SimFs::sync_dir(std::string_view path) {
  return run<Done>(SimOp::sync_dir, path, [&](const Fault&) { return disk_.sync_dir(path); });
}

Result<std::vector<std::string>> SimFs::list(std::string_view dir) const {
  return run<std::vector<std::string>>(SimOp::list, dir, [&](const Fault& fault) {
    const bool is_stale = fault.kind == FaultKind::stale_list;
    return disk_.list(dir, is_stale ? &process_->world().faults().random() : nullptr);
  });
}

Result<FileInfo> SimFs::info(std::string_view path) const {
  return run<FileInfo>(SimOp::info, path, [&](const Fault&) { return disk_.info(path); });
}

Result<> SimFs::append(std::string_view path, Bytes data) {
  return run<Done>(SimOp::append, path, [&](const Fault&) { return disk_.append(path, data); });
}

Result<std::uint64_t> SimFs::free_bytes() const {
  return run<std::uint64_t>(SimOp::free_bytes, "",
                            [&](const Fault&) { return Result<std::uint64_t>(disk_.free_bytes()); });
}

}  // namespace unbroken
