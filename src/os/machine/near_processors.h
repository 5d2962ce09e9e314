#pragma once
// Where the data of a device is near. A disk with one queue, as virtual machines have, tells one processor
// that a transfer is done, and whoever moved the bytes runs beside that one: to read them there was measured
// as fast as the device, and to read them elsewhere half as fast, because each line of the buffers goes from
// cache to cache and back. A disk with many queues tells the processor that asked: there is nothing to
// choose.
#include <cstdint>
#include <string>
#include <vector>

namespace unbroken {

/// The processors that the disk of a file system (st_dev) tells, of those that this process may use; empty
/// where that is all of them, or where it cannot be known. `root` holds sys/ and proc/.
std::vector<unsigned> near_processors(std::uint64_t device, const std::string& root = "/");

}  // namespace unbroken
