#pragma once
// A file that somebody else adds to, or replaces, while we read it.
#include <cstdint>
#include <span>
#include <string>

namespace unbroken {

class GrowingFile {
 public:
  enum class From : std::uint8_t { start, end };
  /// `end`: what is in it now is left out.
  GrowingFile(std::string path, From from);
  /// What was added since, as far as it fits; 0 where nothing was, or where there is no plain file.
  std::size_t read(std::span<char> into);
  /// Did read() begin at the front again since the last call, because the file was cut or replaced?
  bool take_restart();

 private:
  std::string path_;
  std::uint64_t device_ = 0, inode_ = 0, offset_ = 0;  // inode 0: not there yet
  bool has_restarted_ = false;
};

/// Changes whenever the file is written or replaced; empty where there is none.
std::string file_stamp(const std::string& path);

}  // namespace unbroken
