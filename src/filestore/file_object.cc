#include "filestore/file_object.h"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "base/point.h"
#include "world/advice.h"
#include "world/check_time.h"

namespace unbroken {

Error told(Error error, std::string_view doing, std::string_view key, std::string_view directory) {
  const std::string_view object = key.empty() ? "the run directory" : key;
  return advised(std::move(error).with(fmt::format("{} {}", doing, object)), directory, key);
}

namespace {

/// One object being written. Shared by the writer and by every write in flight, so that an abandoned file is
/// closed and removed only after the last of them.
class OpenObject {
 public:
  OpenObject(Fs& fs, FileId file, std::string key, std::uint64_t bytes, std::string_view directory)
      : fs_(fs), file_(file), key_(std::move(key)), bytes_(bytes), directory_(directory) {}
  ~OpenObject() {
    if (!is_closed_) static_cast<void>(fs_.close(file_).ok());
    if (!is_finished_) static_cast<void>(fs_.unlink(key_).ok());
  }
  OpenObject(const OpenObject&) = delete;
  OpenObject& operator=(const OpenObject&) = delete;

  Fs& fs() const { return fs_; }
  FileId file() const { return file_; }
  const std::string& key() const { return key_; }
  std::uint64_t bytes() const { return bytes_; }
  Error told(Error error, std::string_view doing) const {
    return unbroken::told(std::move(error), doing, key_, directory_);
  }

  void begin_write(std::uint64_t bytes) {
    begun_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    in_flight_.fetch_add(1, std::memory_order_relaxed);
  }
  void end_write(const Result<>& result) {
    if (!result.ok()) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = result.error();
    }
    in_flight_.fetch_sub(1, std::memory_order_release);
  }
  bool is_idle() const { return in_flight_.load(std::memory_order_acquire) == 0; }
  /// Writes do not overlap, so that this many are the whole object.
  std::uint64_t begun_bytes() const { return begun_bytes_.load(std::memory_order_relaxed); }
  /// Of the first write that failed.
  std::optional<Error> failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  Result<> close() {
    is_closed_ = true;
    return fs_.close(file_);
  }
  bool is_closed() const { return is_closed_; }
  void finished() { is_finished_ = true; }

 private:
  Fs& fs_;
  const FileId file_;
  const std::string key_;
  const std::uint64_t bytes_;
  const std::string directory_;  // of its own: the store may be gone before the last write is answered
  std::atomic<std::uint64_t> in_flight_ = 0, begun_bytes_ = 0;
  mutable std::mutex mutex_;
  std::optional<Error> failure_;
  bool is_closed_ = false;
  bool is_finished_ = false;
};

class FileWriter final : public ObjectWriter {
 public:
  FileWriter(std::shared_ptr<OpenObject> object, const Clock& clock)
      : object_(std::move(object)), clock_(clock) {}

  void write(std::uint64_t offset, BufferRef data, Completion done) override {
    const std::uint64_t count = data.bytes().size();
    if (!object_) return done(Error(Code::bug, "write after finish"));
    if (offset > object_->bytes() || count > object_->bytes() - offset)
      return done(Error(Code::bad_argument, fmt::format("write {}: {} bytes at {} do not fit into {}",
                                                        object_->key(), count, offset, object_->bytes())));
    object_->begin_write(count);
    Fs& fs = object_->fs();
    const FileId file = object_->file();
    fs.write_at(
        file, offset, std::move(data), [object = object_, done = std::move(done)](Result<> result) mutable {
          object->end_write(result);
          if (!result.ok()) result = object->told(std::move(result).error(), "write");
          object.reset();  // so that an abandoned file is gone when its writer is, once all have answered
          done(std::move(result));
        });
  }

  Result<> finish(const Deadline& by) override {
    if (!object_) return Error(Code::bug, "finish called twice");
    // Whatever happens below, the object is over: a second try takes a new name.
    const std::shared_ptr<OpenObject> object = std::move(object_);
    if (auto done = finish_object(*object, by); !done.ok())
      return object->told(std::move(done).error(), "finish");
    return Done{};
  }

 private:
  Result<> finish_object(OpenObject& object, const Deadline& by) const {
    UNBROKEN_DO(check_time(clock_.now(), by));
    object.fs().settle(object.file());
    if (!object.is_idle()) return Error(Code::bug, "a write was settled without an answer");
    if (auto failure = object.failure()) return std::move(*failure);
    UNBROKEN_DO(check_time(clock_.now(), by));
    // Not the size of the file alone: room that was reserved counts in it.
    UNBROKEN_TRY(const std::uint64_t size, object.fs().size(object.file()));
    if (size != object.bytes() || object.begun_bytes() != object.bytes())
      return Error(Code::bug, fmt::format("the file has {} bytes, of which {} were written, of {}", size,
                                          object.begun_bytes(), object.bytes()));
    UNBROKEN_DO(check_time(clock_.now(), by));
    UNBROKEN_POINT("filestore.before_sync");
    UNBROKEN_DO(object.fs().sync(object.file()));
    UNBROKEN_DO(object.close());
    object.finished();
    UNBROKEN_POINT("filestore.after_sync");
    return Done{};
  }

  std::shared_ptr<OpenObject> object_;
  const Clock& clock_;
};

class FileReader final : public ObjectReader {
 public:
  FileReader(const Fs& fs, FileId file, std::string key, std::uint64_t bytes, std::string_view directory)
      : fs_(fs), file_(file), key_(std::move(key)), bytes_(bytes), directory_(directory) {}
  ~FileReader() override { static_cast<void>(fs_.close(file_).ok()); }
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  std::uint64_t bytes() const override { return bytes_; }
  Result<> read(std::uint64_t offset, MutableBytes into) const override {
    if (into.empty()) return Done{};
    auto got = fs_.read_at(file_, offset, into);
    if (!got.ok()) return told(std::move(got).error(), "read", key_, directory_);
    if (got.value() != into.size())
      return Error(Code::corrupt, fmt::format("read {}: ends after {} bytes, {} wanted at {}", key_,
                                              offset + got.value(), into.size(), offset));
    return Done{};
  }

 private:
  const Fs& fs_;
  const FileId file_;
  const std::string key_;
  const std::uint64_t bytes_;
  const std::string directory_;  // of its own: the store may be gone before the last write is answered
};

}  // namespace

std::unique_ptr<ObjectWriter> make_file_writer(Fs& fs, const Clock& clock, FileId file, std::string key,
                                               std::uint64_t bytes, std::string_view directory) {
  return std::make_unique<FileWriter>(
      std::make_shared<OpenObject>(fs, file, std::move(key), bytes, directory), clock);
}

std::unique_ptr<ObjectReader> make_file_reader(const Fs& fs, FileId file, std::string key,
                                               std::uint64_t bytes, std::string_view directory) {
  return std::make_unique<FileReader>(fs, file, std::move(key), bytes, directory);
}

}  // namespace unbroken
