#pragma once
// Folders and growing files of our own making, outside any run: where a drill works, and what it watches.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/descriptor.h"

namespace unbroken {

/// Makes a new folder: `<base>/<stem>-0001`, or the next number that is free; `base` is made where it is
/// missing. With an empty base a new one in the place for temporary files. Absolute. Errors: unavailable,
/// no_space.
Result<std::string> make_work_folder(const std::string& base, const std::string& stem);
Result<> make_folder(const std::string& path);
/// With everything in it; what cannot be removed stays.
void remove_work_folder(const std::string& path);

/// A new file that keeps the front of what it is given; the last words of one that was full say so.
class OutputFile {
 public:
  /// Errors: unavailable, no_space.
  static Result<OutputFile> create(const std::string& path, std::uint64_t bytes_max);
  /// What cannot be written is lost.
  void add(std::string_view text);

 private:
  OutputFile(Descriptor file, std::uint64_t bytes_max) : file_(std::move(file)), left_(bytes_max) {}
  Descriptor file_;
  std::uint64_t left_;
  bool is_full_ = false;
};

/// A file that others add lines to.
class FileTail {
 public:
  explicit FileTail(std::string path) : path_(std::move(path)) {}
  /// Whole lines added since the last call, without their ends. None where there is no file.
  std::vector<std::string> lines();

 private:
  std::string path_, rest_;
  std::uint64_t offset_ = 0;
};

}  // namespace unbroken
