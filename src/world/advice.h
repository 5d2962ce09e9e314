#pragma once
// What a person should run next where an error itself does not say it.
#include <string_view>

#include "base/result.h"

namespace unbroken {

/// Fills in the next command of an error about the run in `directory`: a damaged journal is looked at with
/// `unbroken doctor`, storage with the system's own tools. `object` is the name below the directory that was
/// asked for, where one was. Errors that have a next command, or that no command helps with, stay as they
/// are.
Error advised(Error error, std::string_view directory, std::string_view object = {});

template <class T>
Result<T> advised(Result<T> result, std::string_view directory) {
  if (!result.ok()) return advised(std::move(result).error(), directory);
  return result;
}

/// Shows who may do what at each part of the path of `object` below `directory`, and what stands there.
std::string path_command(std::string_view directory, std::string_view object = {});

/// As one word of a command, which printable() leaves as it is: in quotes where a shell would read it
/// otherwise.
std::string shell_word(std::string_view text);

}  // namespace unbroken
