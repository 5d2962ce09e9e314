#pragma once
// What happens to the files below a folder while it happens: when somebody begins to write one, when it is
// closed, when it gets its name. For whoever wants to end a process in the middle of it.
//
// It tells of what this machine does; what others do on a shared storage is not seen. A file that is written
// through a mapping is not seen either.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "os/descriptor.h"

namespace unbroken {

class FolderWatch {
 public:
  struct Change {
    enum class What : std::uint8_t {
      written,  ///< the first write, or the cut to nothing, since it was opened or closed
      closed,   ///< after it was written
      renamed,  ///< it, or a folder, got this name
    };
    What what;
    std::string name;  ///< below the folder: "checkpoints/last.pt"
    friend bool operator==(const Change&, const Change&) = default;
  };

  /// Errors: not_found; unavailable (no more watches on this machine).
  static Result<FolderWatch> open(const std::string& folder);
  /// Those since the last call; a bounded number.
  std::vector<Change> changes();
  /// For wait_for_input().
  int number() const { return notify_.get(); }

 private:
  FolderWatch(Descriptor notify, std::string folder)
      : notify_(std::move(notify)), folder_(std::move(folder)) {}
  /// A folder below, with what is in it already; files are told as written.
  void add(const std::string& name, std::vector<Change>& out);
  void take(int watch, unsigned what, const std::string& name, std::vector<Change>& out);

  Descriptor notify_;
  std::string folder_;
  std::map<int, std::string> folders_;  // by the number of the watch; "" is the folder itself
  std::set<std::string> written_;       // and not closed
};

}  // namespace unbroken
