#include "filestore/file_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <span>
#include <utility>

#include "base/ids.h"
#include "base/mutant.h"
#include "base/point.h"
#include "filestore/file_object.h"
#include "world/advice.h"
#include "world/check_time.h"

namespace unbroken {
namespace {

constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr std::size_t kNonceDigits = 16;
// A folder that retention removes while an object is made in it is made again; more often than this is a bug.
constexpr int kFolderRetries = 3;
// Each owner of the run sweeps once.
constexpr int kSweptRetries = 3;
// From here on an object goes past the cache of the machine, and room for it is taken before it is written.
constexpr std::uint64_t kBulkBytes = std::uint64_t{1} << 20;
// A link whose answer may have been lost is asked for again.
constexpr int kLinkTries = 3;

/// "data/step-x/" and "data/step-x" -> "data/step-x"; "" is the run directory.
Result<std::string> folder_of_prefix(std::string_view prefix) {
  if (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (!prefix.empty()) UNBROKEN_DO(check_key(prefix));
  return std::string(prefix);
}

std::string_view parent_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string join(std::string_view folder, std::string_view name) {
  return folder.empty() ? std::string(name) : fmt::format("{}/{}", folder, name);
}

/// Ok also where the thing is gone already.
Result<> unless_gone(Result<> result) {
  if (result.is(Code::not_found)) return Done{};
  return result;
}

/// Writes `data` and waits for it.
Result<> write_whole(Fs& fs, FileId file, Bytes data) {
  if (data.empty()) return Done{};
  // The completion may come from another thread, and its buffer outlives a caller that gave up.
  struct Outcome {
    std::atomic<bool> is_known = false;
    Result<> result = Done{};
  };
  auto outcome = std::make_shared<Outcome>();
  fs.write_at(file, 0, BufferRef::of(std::string(as_text(data))), [outcome](Result<> result) {
    outcome->result = std::move(result);
    outcome->is_known.store(true, std::memory_order_release);
  });
  fs.settle(file);
  if (!outcome->is_known.load(std::memory_order_acquire))
    return Error(Code::bug, "a write was settled without an answer");
  return std::move(outcome->result);
}

}  // namespace

std::optional<std::string_view> temporary_of(std::string_view name) {
  if (!name.ends_with(kTemporarySuffix)) return std::nullopt;
  name.remove_suffix(kTemporarySuffix.size());
  if (name.size() < kNonceDigits + 2) return std::nullopt;
  const std::string_view digits = name.substr(name.size() - kNonceDigits);
  name.remove_suffix(kNonceDigits);
  if (!name.ends_with('.') || digits.find_first_not_of("0123456789abcdef") != std::string_view::npos)
    return std::nullopt;
  name.remove_suffix(1);
  return name;
}

FileStore::FileStore(Fs& fs, const Clock& clock, Random& random, FileStoreOptions options)
    : fs_(fs), clock_(clock), random_(random), options_(std::move(options)) {}

Capabilities FileStore::capabilities() const {
  return {.exclusive_create = options_.exclusive_create,
          .survives_node = options_.survives_node,
          .survives_process = options_.survives_process};
}

StoreIdentity FileStore::identity() const {
  const auto info = fs_.info("");
  if (!info.ok()) return {.device = 0, .inode = 0, .path = options_.path};
  return {.device = info.value().device, .inode = info.value().inode, .path = options_.path};
}

Error FileStore::told(Error error, std::string_view doing, std::string_view key) const {
  return unbroken::told(std::move(error), doing, key, options_.path);
}

/// The error of a look at what stands under `path`. Something of another kind there, or above it, is damage
/// of that object; but where one of the folders at the top is no folder, nothing below it can be believed to
/// be damaged.
Error FileStore::seen(Error error, std::string_view doing, std::string_view path) const {
  const std::string_view top = path.substr(0, path.find('/'));
  const bool is_strange = error.code() == Code::bad_argument;
  if (is_strange && (top.size() == path.size() || is_folder(top)))
    error = Error(Code::corrupt, error.what()).from_system(error.system_error());
  return told(std::move(error), doing, path);
}

bool FileStore::is_folder(std::string_view path) const {
  const auto info = fs_.info(path);
  return info.ok() ? info.value().is_directory : !info.is(Code::bad_argument);
}

Result<> FileStore::check(const Deadline& by) const {
  return check_time(clock_.now(), by);
}

Result<> FileStore::check(const Deadline& by, std::string_view doing, std::string_view key) const {
  auto in_time = check(by);
  if (!in_time.ok()) return told(std::move(in_time).error(), doing, key);
  return in_time;
}

std::string FileStore::temporary_name(std::string_view key) {
  return fmt::format("{}.{}{}", key, Nonce{random_.next()}.hex(), kTemporarySuffix);
}

/// The name of a folder at the top may have to become durable once more.
void FileStore::forget_durable(std::string_view folder) {
  const std::scoped_lock lock(mutex_);
  durable_folders_.erase(std::string(folder));
  ++folder_changes_;
}

Result<> FileStore::make_parents(std::string_view key, const Deadline& by) {
  const std::string_view folder = parent_of(key);
  if (folder.empty()) return Done{};
  UNBROKEN_DO(check(by));
  auto made = fs_.make_dir(folder);
  if (made.is(Code::not_found)) {
    UNBROKEN_DO(make_parents(folder, by));
    UNBROKEN_DO(check(by));
    made = fs_.make_dir(folder);
  }
  // Also where it exists: it was missing just now, so somebody else has made it afresh.
  if (parent_of(folder).empty()) forget_durable(folder);
  if (!made.ok()) return Error(made.error());
  return Done{};
}

/// A new file at `path`; the folders of `key` are made where they are missing.
Result<FileId> FileStore::create_file(const std::string& path, std::string_view key, const Deadline& by) {
  for (int i = 0;; ++i) {
    UNBROKEN_DO(check(by));
    auto file = fs_.create_excl(path);
    if (!file.is(Code::not_found) || i == kFolderRetries) return file;
    UNBROKEN_DO(make_parents(key, by));
  }
}

void FileStore::discard(std::string_view path) {
  static_cast<void>(fs_.unlink(path).ok());
}

/// A closed temporary file beside `key`, content durable if asked for. Leaves nothing after an error.
Result<std::string> FileStore::write_temporary(std::string_view key, Bytes data, bool is_durable,
                                               const Deadline& by) {
  std::string temporary = temporary_name(key);
  UNBROKEN_TRY(const FileId file, create_file(temporary, key, by));
  const auto fill = [&]() -> Result<> {
    UNBROKEN_DO(check(by));
    UNBROKEN_DO(write_whole(fs_, file, data));
    if (!is_durable) return Done{};
    UNBROKEN_DO(check(by));
    UNBROKEN_POINT("filestore.before_sync");
    return fs_.sync(file);
  };
  auto filled = fill();
  auto closed = fs_.close(file);
  if (filled.ok()) filled = std::move(closed);
  if (filled.ok()) return temporary;
  discard(temporary);
  return std::move(filled).error();
}

/// Gives the whole, durable temporary file its name, without ever replacing. A network file system may have
/// lost the answer, or answered a request of ours that it carried out twice: the temporary file is ours
/// alone, so where the name stands for it, the name is ours (open(2), O_EXCL). Its count of links alone would
/// also count those of a program that copies the directory by links.
Result<Created> FileStore::publish(const std::string& temporary, std::string_view key, const Deadline& by) {
  if (UNBROKEN_MUTANT("rename_instead_of_link")) {
    UNBROKEN_DO(fs_.rename(temporary, key));
    return Created::created;
  }
  for (int tries_left = kLinkTries;;) {
    auto linked = fs_.link(temporary, key);
    if (linked.ok() && linked.value() == Created::created) return linked;
    if (is_name_of(key, temporary)) return Created::created;
    // Gone: the owner of the run swept it away, and then there is nothing; or it was moved to its name, where
    // there are no links, and the answer was lost.
    if (linked.is(Code::not_found)) return Created::unknown;
    const bool is_unknown = linked.ok() ? linked.value() == Created::unknown : linked.is(Code::unavailable);
    if (!is_unknown || --tries_left == 0) return linked;
    UNBROKEN_DO(check(by));
  }
}

bool FileStore::is_name_of(std::string_view key, std::string_view temporary) const {
  const auto ours = fs_.info(temporary), named = fs_.info(key);
  return ours.ok() && named.ok() && ours.value().links > 1 && ours.value().inode == named.value().inode &&
         ours.value().device == named.value().device;
}

Result<Created> FileStore::create(std::string_view key, Bytes data, const Deadline& by) {
  UNBROKEN_DO(check_key(key));
  auto temporary = write_temporary(key, data, true, by);
  if (!temporary.ok()) return told(std::move(temporary).error(), "create", key);
  Result<Created> how = Created::unknown;
  if (auto in_time = check(by); in_time.ok()) {
    UNBROKEN_POINT("filestore.before_link");
    how = publish(temporary.value(), key, by);
    UNBROKEN_POINT("filestore.after_link");
  } else {
    how = std::move(in_time).error();
  }
  discard(temporary.value());
  if (!how.ok()) return told(std::move(how).error(), "create", key);
  return how;
}

Result<std::unique_ptr<ObjectWriter>> FileStore::open_writer(std::string_view key, std::uint64_t bytes,
                                                             const Deadline& by) {
  UNBROKEN_DO(check_key(key));
  std::string path(key);
  auto file = create_file(path, key, by);
  if (!file.ok()) return told(std::move(file).error(), "create", key);
  auto writer = make_file_writer(fs_, clock_, file.value(), path, bytes, options_.path);
  if (bytes < kBulkBytes) return writer;
  if (auto reserved = fs_.reserve(file.value(), bytes); !reserved.ok())
    return told(std::move(reserved).error(), "create", key);
  fs_.bypass_cache(file.value(), path);
  return writer;
}

Result<std::unique_ptr<ObjectReader>> FileStore::open_reader(std::string_view key, const Deadline& by) const {
  UNBROKEN_DO(check_key(key));
  UNBROKEN_DO(check(by, "read", key));
  auto file = fs_.open_read(key);
  if (!file.ok()) return seen(std::move(file).error(), "read", key);
  auto size = fs_.size(file.value());
  if (!size.ok()) {
    static_cast<void>(fs_.close(file.value()).ok());
    return told(std::move(size).error(), "read", key);
  }
  if (size.value() >= kBulkBytes) fs_.bypass_cache(file.value(), key);
  return make_file_reader(fs_, file.value(), std::string(key), size.value(), options_.path);
}

Result<std::string> FileStore::get(std::string_view key, std::uint64_t bytes_max, const Deadline& by) const {
  UNBROKEN_TRY(const auto reader, open_reader(key, by));
  const std::uint64_t bytes = reader->bytes();
  if (bytes > bytes_max)
    return Error(Code::corrupt,
                 fmt::format("read {}: it has {} bytes, at most {} are expected", key, bytes, bytes_max));
  UNBROKEN_DO(check(by, "read", key));
  std::string content(bytes, '\0');
  UNBROKEN_DO(reader->read(0, std::as_writable_bytes(std::span(content))));
  return content;
}

Result<std::vector<std::string>> FileStore::list(std::string_view prefix, const Deadline& by) const {
  UNBROKEN_TRY(const std::string folder, folder_of_prefix(prefix));
  UNBROKEN_DO(check(by, "list", folder));
  auto names = fs_.list(folder);
  if (names.is(Code::not_found)) return std::vector<std::string>();
  if (!names.ok()) return seen(std::move(names).error(), "list", folder);
  // A name that is no key cannot be an object of ours.
  std::erase_if(names.value(),
                [](const std::string& name) { return temporary_of(name) || !check_key(name).ok(); });
  std::ranges::sort(names.value());
  return names;
}

Result<> FileStore::remove(std::string_view key, const Deadline& by) {
  UNBROKEN_DO(check_key(key));
  UNBROKEN_DO(check(by, "remove", key));
  UNBROKEN_POINT("filestore.before_unlink");
  auto removed = unless_gone(fs_.unlink(key));
  if (!removed.ok()) return told(std::move(removed).error(), "remove", key);
  return removed;
}

Result<std::uint64_t> FileStore::sweep(std::string_view prefix,
                                       const std::function<bool(std::string_view)>& is_wanted,
                                       const Deadline& by) {
  UNBROKEN_TRY(const std::string folder, folder_of_prefix(prefix));
  UNBROKEN_DO(check(by, "sweep", folder));
  auto names = fs_.list(folder);
  if (names.is(Code::not_found)) return std::uint64_t{0};
  if (!names.ok()) return told(std::move(names).error(), "sweep", folder);
  std::uint64_t count = 0;
  for (const std::string& name : names.value()) {
    const auto object = temporary_of(name);
    if (!object || !is_wanted(*object)) continue;
    UNBROKEN_DO(check(by, "sweep", folder));
    UNBROKEN_POINT("filestore.before_sweep");
    if (auto gone = unless_gone(fs_.unlink(join(folder, name))); !gone.ok())
      return told(std::move(gone).error(), "sweep", folder);
    ++count;
  }
  return count;
}

Result<> FileStore::remove_folder(std::string_view prefix, const Deadline& by) {
  UNBROKEN_TRY(const std::string folder, folder_of_prefix(prefix));
  if (folder.empty()) return Error(Code::bad_argument, "remove folder: the run directory itself stays");
  UNBROKEN_DO(check(by, "remove folder", folder));
  auto removed = unless_gone(fs_.remove_dir(folder));
  if (!removed.ok()) {
    // What a killed writer left behind must not keep the folder for ever.
    UNBROKEN_TRY(const std::uint64_t swept, sweep(prefix, [](std::string_view) { return true; }, by));
    UNBROKEN_DO(check(by, "remove folder", folder));
    if (swept > 0) removed = unless_gone(fs_.remove_dir(folder));
  }
  if (!removed.ok()) return told(std::move(removed).error(), "remove folder", folder);
  forget_durable(folder);
  return Done{};
}

/// Makes the names of `folder` and of the folders above it durable.
Result<> FileStore::sync_above(std::string_view folder, const Deadline& by) {
  while (!folder.empty()) {
    const std::string_view parent = parent_of(folder);
    std::uint64_t changes = 0;
    if (parent.empty()) {
      const std::scoped_lock lock(mutex_);
      if (durable_folders_.contains(folder)) return Done{};
      changes = folder_changes_;
    }
    UNBROKEN_DO(check(by));
    UNBROKEN_DO(fs_.sync_dir(parent));
    if (parent.empty()) {
      const std::scoped_lock lock(mutex_);
      if (changes == folder_changes_) durable_folders_.emplace(folder);
    }
    folder = parent;
  }
  return Done{};
}

Result<> FileStore::sync(std::string_view prefix, const Deadline& by) {
  UNBROKEN_TRY(const std::string folder, folder_of_prefix(prefix));
  UNBROKEN_DO(check(by, "sync", folder));
  if (UNBROKEN_MUTANT("no_dir_sync")) return Done{};
  // A name that is durable elsewhere is of no use to whoever starts here.
  if (!fs_.is_in_place())
    return Error(Code::journal_unreadable,
                 fmt::format("{}: the directory of this run was removed or moved away", options_.path))
        .next(path_command(options_.path, ""));
  UNBROKEN_POINT("filestore.before_dir_sync");
  auto synced = fs_.sync_dir(folder);
  // Where there is no folder there are no names to lose.
  if (synced.is(Code::not_found)) return Done{};
  if (synced.ok()) synced = sync_above(folder, by);
  if (!synced.ok()) return told(std::move(synced).error(), "sync", folder);
  UNBROKEN_POINT("filestore.after_dir_sync");
  return Done{};
}

Result<> FileStore::advise(std::string_view key, Bytes data, const Deadline& by) {
  UNBROKEN_DO(check_key(key));
  for (int i = 0;; ++i) {
    auto temporary = write_temporary(key, data, false, by);
    if (!temporary.ok()) return told(std::move(temporary).error(), "replace", key);
    auto renamed = check(by);
    if (renamed.ok()) renamed = fs_.rename(temporary.value(), key);
    if (renamed.ok()) return Done{};
    discard(temporary.value());
    // Gone: the owner of the run swept it away.
    if (!renamed.is(Code::not_found) || i == kSweptRetries)
      return told(std::move(renamed).error(), "replace", key);
  }
}

Result<> FileStore::append(std::string_view key, Bytes data, const Deadline& by) {
  UNBROKEN_DO(check_key(key));
  UNBROKEN_DO(check(by, "append to", key));
  auto appended = fs_.append(key, data);
  if (appended.is(Code::not_found)) {
    appended = make_parents(key, by);
    if (appended.ok()) appended = fs_.append(key, data);
  }
  if (!appended.ok()) return told(std::move(appended).error(), "append to", key);
  return Done{};
}

Result<std::uint64_t> FileStore::free_bytes(const Deadline& by) const {
  UNBROKEN_DO(check(by, "look at", ""));
  auto free = fs_.free_bytes();
  if (!free.ok()) return told(std::move(free).error(), "look at", "");
  return free;
}

}  // namespace unbroken
