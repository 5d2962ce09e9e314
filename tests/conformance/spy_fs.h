#pragma once
// An Fs that writes down which calls reach it, in order, and can answer chosen ones itself.
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "world/fs.h"

namespace unbroken {

class SpyFs final : public Fs {
 public:
  explicit SpyFs(Fs& real) : real_(real) {}

  /// What reached us since the last call: "link journal/0", with the nonce of temporary names left out.
  std::vector<std::string> take_calls() { return std::exchange(calls_, {}); }
  /// From now on `call` ("sync") fails with this, before it has had any effect.
  void fail(const std::string& call, Code code) { failures_.insert_or_assign(call, code); }
  void heal() {
    failures_.clear();
    on_call = nullptr;
    link_answer = nullptr;
    is_deferred = false;
  }
  /// Told of each call as it arrives.
  std::function<void(const std::string& call)> on_call;
  /// Called instead of link(2).
  std::function<Result<Created>(Fs&, std::string_view from, std::string_view to)> link_answer;
  /// Writes are carried out, and answered, only by settle(): as an asynchronous engine does.
  bool is_deferred = false;

  Result<FileId> create_excl(std::string_view path) override {
    UNBROKEN_DO(note("create_excl", path));
    return real_.create_excl(path);
  }
  Result<FileId> open_read(std::string_view path) const override {
    UNBROKEN_DO(note("open_read", path));
    return real_.open_read(path);
  }
  Result<> reserve(FileId file, std::uint64_t bytes) override {
    UNBROKEN_DO(note("reserve", ""));
    return real_.reserve(file, bytes);
  }
  void bypass_cache(FileId file, std::string_view path) const override {
    (void)note("bypass_cache", path);
    real_.bypass_cache(file, path);
  }
  void write_at(FileId file, std::uint64_t offset, BufferRef data, Completion done) override {
    if (auto noted = note("write", ""); !noted.ok()) return done(std::move(noted));
    auto write = [this, file, offset, data = std::move(data), done = std::move(done)] {
      real_.write_at(file, offset, data, done);
    };
    if (!is_deferred) return write();
    deferred_.emplace_back(std::move(write));
  }
  void settle(FileId) override {
    for (const auto& write : std::exchange(deferred_, {})) write();
  }
  Result<std::uint64_t> read_at(FileId file, std::uint64_t offset, MutableBytes into) const override {
    UNBROKEN_DO(note("read", ""));
    return real_.read_at(file, offset, into);
  }
  Result<std::uint64_t> size(FileId file) const override { return real_.size(file); }
  Result<> sync(FileId file) override {
    UNBROKEN_DO(note("sync", ""));
    return real_.sync(file);
  }
  Result<> close(FileId file) const override {
    auto closed = real_.close(file);
    UNBROKEN_DO(note("close", ""));
    return closed;
  }
  Result<Created> link(std::string_view from, std::string_view to) override {
    UNBROKEN_DO(note("link", to));
    return link_answer ? link_answer(real_, from, to) : real_.link(from, to);
  }
  Result<> rename(std::string_view from, std::string_view to) override {
    UNBROKEN_DO(note("rename", to));
    return real_.rename(from, to);
  }
  Result<> unlink(std::string_view path) override {
    UNBROKEN_DO(note("unlink", path));
    return real_.unlink(path);
  }
  Result<Created> make_dir(std::string_view path) override {
    UNBROKEN_DO(note("make_dir", path));
    return real_.make_dir(path);
  }
  Result<> remove_dir(std::string_view path) override {
    UNBROKEN_DO(note("remove_dir", path));
    return real_.remove_dir(path);
  }
  Result<> sync_dir(std::string_view path) override {
    UNBROKEN_DO(note("sync_dir", path));
    return real_.sync_dir(path);
  }
  Result<std::vector<std::string>> list(std::string_view dir) const override {
    UNBROKEN_DO(note("list", dir));
    return real_.list(dir);
  }
  Result<FileInfo> info(std::string_view path) const override {
    UNBROKEN_DO(note("info", path));
    return real_.info(path);
  }
  Result<> append(std::string_view path, Bytes data) override {
    UNBROKEN_DO(note("append", path));
    return real_.append(path, data);
  }
  Result<std::uint64_t> free_bytes() const override { return real_.free_bytes(); }
  bool is_in_place() const override { return real_.is_in_place(); }

 private:
  Result<> note(const std::string& call, std::string_view path) const {
    std::string line = call + (path.empty() ? "" : " ") + std::string(path);
    if (line.ends_with(".tmp")) line.replace(line.size() - 20, 16, "NONCE");
    if (on_call) on_call(line);
    calls_.push_back(line);
    const auto failure = failures_.find(call);
    if (failure == failures_.end()) return Done{};
    return Error(failure->second, call + " fails here");
  }

  Fs& real_;
  mutable std::vector<std::string> calls_;
  std::vector<std::function<void()>> deferred_;
  std::map<std::string, Code> failures_;
};

}  // namespace unbroken
