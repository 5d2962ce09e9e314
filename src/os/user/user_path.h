#pragma once
// Files and folders that a person names to bring a checkpoint in or to take one out: any path, any symbolic
// link in it. A new file, or a new folder, appears under its name whole or not at all.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "os/descriptor.h"

namespace unbroken {

/// A file of a person, open for reading. It does not change while it is read, or else reading it fails.
class UserFileReader {
 public:
  /// Errors: not_found; bad_argument (not a plain file); unavailable.
  static Result<UserFileReader> open(const std::string& path);
  /// One that lies in `folder`, whose name has no '/' in it and is no symbolic link.
  static Result<UserFileReader> open_in(const std::string& folder, const std::string& name);
  std::uint64_t bytes() const { return bytes_; }
  int number() const { return file_.get(); }
  /// Fills `into`. Errors: corrupt where the file ends before; unavailable.   Threads: any.
  Result<> read(std::uint64_t offset, MutableBytes into) const;

 private:
  UserFileReader(Descriptor file, std::uint64_t bytes) : file_(std::move(file)), bytes_(bytes) {}
  Descriptor file_;
  std::uint64_t bytes_ = 0;
};

bool is_user_folder(const std::string& path);
/// Is there anything under this name, also a broken link?
bool is_there(const std::string& path);
/// Is it a folder without anything in it?
bool is_empty_folder(const std::string& path);
/// Could lines be added to a file of this name, which may not be there yet? Errors: bad_argument, saying why
/// not.
Result<> check_can_append(const std::string& path);
/// The same, of what is a plain file itself: no symbolic link, no device.
Result<> check_can_append_plainly(const std::string& path);
/// Names in a folder, sorted. Errors: not_found, unavailable.
Result<std::vector<std::string>> list_user_folder(const std::string& path);

/// A file that is being written beside its place.
class NewUserFile {
 public:
  /// Errors: not_found (no such folder), unavailable, no_space.
  static Result<NewUserFile> create(const std::string& path);
  NewUserFile(NewUserFile&&) = default;
  NewUserFile& operator=(NewUserFile&&) = delete;
  /// Removes what was not finished.
  ~NewUserFile();
  /// Errors: no_space, unavailable.
  Result<> write(std::uint64_t offset, Bytes bytes);
  enum class IfThere : std::uint8_t { refuse, replace };
  /// Puts it in its place. Errors: bad_argument (refuse, and something is there); no_space, unavailable.
  /// Durability: bytes and name are durable after ok.
  Result<> finish(IfThere if_there);

 private:
  NewUserFile(Descriptor file, std::string path, std::string temporary)
      : file_(std::move(file)), path_(std::move(path)), temporary_(std::move(temporary)) {}
  Descriptor file_;
  std::string path_, temporary_;
};

/// Gives a folder, made beside `to`, the name `to`, where nothing or an empty folder stands.
/// Errors: bad_argument (something is there); unavailable.   Durability: the name is durable after ok.
Result<> move_folder(const std::string& from, const std::string& to);
/// "a/b" of "a/b/c", "." of "c".
std::string folder_of(const std::string& path);
/// "c" of "a/b/c".
std::string last_name_of(const std::string& path);
std::string absolute_path(const std::string& path);
/// An error about this file, or about one in this folder, which it names; once.
Error about_file(Error error, const std::string& path);

}  // namespace unbroken
