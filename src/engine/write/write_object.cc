#include "engine/write/write_object.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "world/parallel.h"

namespace unbroken {
namespace {

/// Collects the answers of writes that are in flight.
class InFlight {
 public:
  explicit InFlight(Executor& executor) : executor_(executor) {}
  Completion track() {
    outstanding_.fetch_add(1);
    return [this](Result<> result) {
      if (!result.ok()) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::move(result).error();
      }
      // The notify is the last touch: the waiter may go on, and take this object with it, once the count is
      // zero.
      Executor& executor = executor_;
      outstanding_.fetch_sub(1);
      executor.notify();
    };
  }
  Result<> wait() {
    executor_.join([this] { return outstanding_.load() == 0; });
    const std::lock_guard lock(mutex_);
    if (error_) return *error_;
    return Done{};
  }

 private:
  Executor& executor_;
  std::atomic<std::size_t> outstanding_{0};
  std::mutex mutex_;
  std::optional<Error> error_;
};

struct Piece {
  std::uint64_t offset;
  BufferRef bytes;
};

Result<> write_blocks(const Seams& seams, std::string_view key, std::span<const BufferRef> parts,
                      const IsFinal& is_final, const Deadline& by) {
  std::vector<Piece> pieces;
  std::uint64_t total = 0;
  for (const BufferRef& part : parts) {
    const std::uint64_t size = part.bytes().size();
    for (std::uint64_t at = 0; at < size; at += kBlockBytes)
      pieces.push_back({total + at, part.slice(at, std::min(kBlockBytes, size - at))});
    total += size;
  }
  UNBROKEN_TRY(const std::unique_ptr<ObjectWriter> writer, seams.store.open_writer(key, total, by));
  InFlight in_flight(seams.executor);
  const auto issued = parallel_for(seams.executor, Lane::io, pieces.size(), [&](std::size_t i) -> Result<> {
    UNBROKEN_DO(seams.check_piece("write", key, by));
    if (is_final) {
      const std::uint64_t begin = pieces[i].offset, end = begin + pieces[i].bytes.bytes().size();
      UNBROKEN_DO(seams.executor.wait([&] { return is_final(begin, end); }, by));
    }
    writer->write(pieces[i].offset, pieces[i].bytes, in_flight.track());
    return Done{};
  });
  const auto written = in_flight.wait();
  UNBROKEN_DO(issued);
  if (!written.ok()) return Error(written.error());
  return writer->finish(by);
}

/// Runs on the io lane, or in finish() where that took nothing.
class Begun final : public BegunWrite {
 public:
  Begun(const Seams& seams, std::string key, BufferRef image, IsFinal is_final, Deadline by)
      : seams_(seams),
        key_(std::move(key)),
        image_(std::move(image)),
        is_final_(std::move(is_final)),
        by_(std::move(by)) {}
  void run() {
    if (is_taken_.exchange(true)) return;
    try {
      result_ = write_blocks(seams_, key_, {&image_, 1}, is_final_, by_);
    } catch (const std::exception& e) {
      result_ = Error(Code::bug, e.what());
    }
    is_over_.store(true);
    seams_.executor.notify();
  }
  Result<> finish() override {
    run();
    seams_.executor.join([this] { return is_over_.load(); });
    return result_;
  }

 private:
  const Seams seams_;
  const std::string key_;
  const BufferRef image_;
  const IsFinal is_final_;
  const Deadline by_;
  Result<> result_ = Done{};
  std::atomic<bool> is_taken_{false}, is_over_{false};
};

}  // namespace

Result<> write_object(const Seams& seams, std::string_view key, std::span<const BufferRef> parts,
                      const Deadline& by) {
  return write_blocks(seams, key, parts, {}, by);
}

std::shared_ptr<BegunWrite> begin_write(const Seams& seams, std::string key, BufferRef image,
                                        IsFinal is_final, const Deadline& by) {
  auto begun = std::make_shared<Begun>(seams, std::move(key), std::move(image), std::move(is_final), by);
  static_cast<void>(seams.executor.post(Lane::io, [begun] { begun->run(); }));
  return begun;
}

}  // namespace unbroken
