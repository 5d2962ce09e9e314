#include "engine/write/write_object.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutant.h"
#include "world/parallel.h"

namespace unbroken {
namespace {

/// Collects the answers of writes that are in flight.
class InFlight {
 public:
  InFlight(Executor& executor, const WriteWish& wish) : executor_(executor), wish_(wish) {}
  Completion track(std::uint64_t begin, std::uint64_t end) {
    outstanding_.fetch_add(1);
    return [this, begin, end](Result<> result) {
      if (result.ok() && wish_.on_written) wish_.on_written(begin, end);
      if (!result.ok()) {
        if (wish_.on_failed) wish_.on_failed(result.error());
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
    return check();
  }
  /// Did one fail already?
  Result<> check() {
    const std::lock_guard lock(mutex_);
    if (error_) return *error_;
    return Done{};
  }

 private:
  Executor& executor_;
  const WriteWish& wish_;
  std::atomic<std::size_t> outstanding_{0};
  std::mutex mutex_;
  std::optional<Error> error_;
};

// A write at a rate: small, so that others have their turn in between.
constexpr std::uint64_t kPacedBytes = std::uint64_t{1} << 20;

struct Piece {
  std::uint64_t offset;
  BufferRef bytes;
};

using Opened = Result<std::unique_ptr<ObjectWriter>>;

Opened open_for(const Seams& seams, std::string_view key, std::span<const BufferRef> parts,
                const Deadline& by) {
  std::uint64_t total = 0;
  for (const BufferRef& part : parts) total += part.bytes().size();
  return seams.store.open_writer(key, total, by);
}

std::vector<Piece> pieces_of(std::span<const BufferRef> parts, std::uint64_t piece_bytes) {
  std::vector<Piece> pieces;
  std::uint64_t total = 0;
  for (const BufferRef& part : parts) {
    const std::uint64_t size = part.bytes().size();
    for (std::uint64_t at = 0; at < size; at += piece_bytes)
      pieces.push_back({total + at, part.slice(at, std::min(piece_bytes, size - at))});
    total += size;
  }
  return pieces;
}

/// Lets bytes pass at a rate. What was not used is not made up for. Threads: one.
class Pacer {
 public:
  Pacer(const Seams& seams, std::uint64_t bytes_per_s) : seams_(seams), bytes_per_s_(bytes_per_s) {}
  /// Waits for the turn of these bytes. Errors: stopped.
  Result<> wait(std::uint64_t bytes, const Deadline& by) {
    const auto waited = seams_.executor.wait([] { return false; }, {std::min(next_, by.at), by.stop});
    if (waited.is(Code::stopped)) return waited;
    const std::chrono::duration<double> takes(static_cast<double>(bytes) / static_cast<double>(bytes_per_s_));
    next_ = std::max(next_, seams_.clock.now()) + std::chrono::duration_cast<Duration>(takes);
    return Done{};
  }

 private:
  const Seams& seams_;
  const std::uint64_t bytes_per_s_;
  Instant next_ = seams_.clock.now();
};

Result<> write_blocks(const Seams& seams, std::string_view key, Opened opened,
                      std::span<const BufferRef> parts, const WriteWish& wish, const Deadline& by) {
  UNBROKEN_TRY(const std::unique_ptr<ObjectWriter> writer, std::move(opened));
  const bool is_paced = wish.bytes_per_s > 0;
  const std::vector<Piece> pieces = pieces_of(parts, is_paced ? kPacedBytes : kBlockBytes);
  Pacer pacer(seams, wish.bytes_per_s);
  InFlight in_flight(seams.executor, wish);
  const auto issue = [&](std::size_t i) -> Result<> {
    UNBROKEN_DO(seams.check_piece("write", key, by));
    const std::uint64_t bytes = pieces[i].bytes.bytes().size(), begin = pieces[i].offset;
    if (wish.is_final)
      UNBROKEN_DO(seams.executor.wait([&] { return wish.is_final(begin, begin + bytes); }, by));
    const auto turn = wish.gives_way ? wish.gives_way() : nullptr;
    if (is_paced) UNBROKEN_DO(pacer.wait(bytes, by));
    UNBROKEN_DO(in_flight.check());  // the rest of an object of which a piece is missing is of no use
    if (wish.on_written && UNBROKEN_MUTANT("gives_back_unwritten")) wish.on_written(begin, begin + bytes);
    writer->write(begin, pieces[i].bytes, in_flight.track(begin, begin + bytes));
    return Done{};
  };
  const auto issued = [&]() -> Result<> {
    if (!is_paced) return parallel_for(seams.executor, Lane::io, pieces.size(), issue);
    for (std::size_t i = 0; i < pieces.size(); ++i) UNBROKEN_DO(issue(i));
    return Done{};
  }();
  const auto written = in_flight.wait();
  UNBROKEN_DO(issued);
  if (!written.ok()) return Error(written.error());
  return writer->finish(by);
}

/// Runs on the io lane; where that took nothing in finish(), or at once where others wait for it.
class Begun final : public BegunWrite {
 public:
  Begun(const Seams& seams, std::string key, BufferRef image, WriteWish wish, Deadline by)
      : seams_(seams),
        key_(std::move(key)),
        image_(std::move(image)),
        wish_(std::move(wish)),
        by_(std::move(by)),
        opened_(open_for(seams_, key_, {&image_, 1}, by_)) {}
  void run() {
    if (is_taken_.exchange(true)) return;
    try {
      result_ = write_blocks(seams_, key_, std::move(opened_), {&image_, 1}, wish_, by_);
    } catch (const std::exception& e) {
      result_ = Error(Code::bug, e.what());
    }
    if (!result_.ok() && wish_.on_failed) wish_.on_failed(result_.error());
    is_over_.store(true);
    seams_.executor.notify();
  }
  /// Does somebody wait for it who does not call finish() before?
  bool is_awaited() const { return static_cast<bool>(wish_.on_written); }
  Result<> finish() override {
    run();
    seams_.executor.join([this] { return is_over_.load(); });
    return result_;
  }

 private:
  const Seams seams_;
  const std::string key_;
  const BufferRef image_;
  const WriteWish wish_;
  const Deadline by_;
  Opened opened_;
  Result<> result_ = Done{};
  std::atomic<bool> is_taken_{false}, is_over_{false};
};

}  // namespace

Result<> write_object(const Seams& seams, std::string_view key, std::span<const BufferRef> parts,
                      const Deadline& by) {
  return write_blocks(seams, key, open_for(seams, key, parts, by), parts, {}, by);
}

std::shared_ptr<BegunWrite> begin_write(const Seams& seams, std::string key, BufferRef image, WriteWish wish,
                                        const Deadline& by) {
  auto begun = std::make_shared<Begun>(seams, std::move(key), std::move(image), std::move(wish), by);
  const bool is_taken = seams.executor.post(Lane::io, [begun] { begun->run(); });
  if (!is_taken && begun->is_awaited()) begun->run();
  return begun;
}

}  // namespace unbroken
