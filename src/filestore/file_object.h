#pragma once
// One open file as an object: being written, or being read. Used by FileStore alone.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "world/clock.h"
#include "world/fs.h"
#include "world/store.h"

namespace unbroken {

/// Who was doing what to which object, said once, and what to run next: "read journal/7: pread: EIO (...)".
/// `directory` is the run's.
Error told(Error error, std::string_view doing, std::string_view key, std::string_view directory);

/// Takes over `file`, made just now under the name `key`. An object that is not finished is closed and
/// removed, after the last of its writes in flight. `directory`, here and below: the run's, for people.
std::unique_ptr<ObjectWriter> make_file_writer(Fs& fs, const Clock& clock, FileId file, std::string key,
                                               std::uint64_t bytes, std::string_view directory);

/// Takes over `file`, which is `bytes` long.
std::unique_ptr<ObjectReader> make_file_reader(const Fs& fs, FileId file, std::string key,
                                               std::uint64_t bytes, std::string_view directory);

}  // namespace unbroken
