#pragma once
// Opens names below one directory, never through a symbolic link and never outside it: by openat2(2), or
// component by component with O_NOFOLLOW where the kernel or a sandbox has no openat2.
#include <string>
#include <string_view>

#include "base/result.h"
#include "os/descriptor.h"

namespace unbroken {

class Lookup {
 public:
  /// `root` is borrowed. `is_portable` chooses the component-wise way even where openat2 works.
  Lookup(int root, bool is_portable);

  /// openat(2) of `path` ("" is the root) with `flags | O_CLOEXEC | O_NOFOLLOW`. Errors: bad_argument for a
  /// symbolic link anywhere in it and for ".", ".." or an empty segment.
  Result<Descriptor> open(std::string_view path, int flags, unsigned mode = 0) const;

  struct Place {
    Descriptor folder;  ///< O_PATH
    std::string name;
  };
  /// The folder that holds `path`, for calls that take a directory and a name.
  Result<Place> place(std::string_view path) const;

 private:
  Result<Descriptor> open_beneath(std::string_view path, int flags, unsigned mode) const;
  Result<Descriptor> walk(std::string_view path, int flags, unsigned mode) const;

  int root_;
  bool is_portable_;
};

}  // namespace unbroken
