#pragma once
// What killed processes leave of creates that they did not end.
#include "filestore/file_store.h"

namespace unbroken {

/// Removes the temporary names of a run's objects at the top, in journal/, fold/ and metrics/. Only for
/// whoever has appended the newest OPEN: a superseded owner has lost its slot already, and whoever else is in
/// the middle of a create there (a loader's pin, another start) finds that it made nothing and asks again. No
/// clock and no process id is asked. What cannot be removed now is left to the next start.
void sweep_leftovers(FileStore& store, const Deadline& by);

}  // namespace unbroken
