#pragma once
// Lines of a text that comes in pieces, and that may be anything: no end in sight, no text at all.
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace unbroken {

class LineCutter {
 public:
  /// Of a longer line only the first `bytes_max` bytes are kept.
  explicit LineCutter(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  /// Calls `take` for each line that ends in `piece`: with a line feed, or as a progress bar does, with a
  /// carriage return. The end is no part of the line; empty lines are left out.
  template <class Take>
  void add(std::string_view piece, Take take) {
    for (std::size_t end = piece.find_first_of("\r\n"); end != std::string_view::npos;
         end = piece.find_first_of("\r\n")) {
      keep(piece.substr(0, end));
      if (!rest_.empty()) take(std::string_view(rest_));
      rest_.clear();
      piece.remove_prefix(end + 1);
    }
    keep(piece);
  }
  /// What has no end yet.
  std::string_view rest() const { return rest_; }
  void forget() { rest_.clear(); }

 private:
  void keep(std::string_view piece) {
    rest_ += piece.substr(0, bytes_max_ - std::min(bytes_max_, rest_.size()));
  }

  std::size_t bytes_max_;
  std::string rest_;
};

}  // namespace unbroken
