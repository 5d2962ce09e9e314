#pragma once
// Memory of others that is about to be filled for the first time.
#include "base/bytes.h"

namespace unbroken {

/// Asks the kernel to give it in large pages, where it is so large that whole ones fit. Taken page by page,
/// new memory costs several times as many processor seconds as reading and verifying what goes there. A wish.
void wish_large_pages(MutableBytes memory);

}  // namespace unbroken
