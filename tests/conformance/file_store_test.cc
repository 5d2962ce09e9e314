#include "filestore/file_store.h"

#include "conformance/os_store.h"
#include "conformance/store_suite.h"

namespace unbroken {
namespace {

std::unique_ptr<StoreUnderTest> make_files() {
  return std::make_unique<OsStoreUnderTest>();
}

std::unique_ptr<StoreUnderTest> make_files_without_openat2() {
  return std::make_unique<OsStoreUnderTest>(OsFsOptions{.is_lookup_portable = true});
}

int no_links(int, const char*, int, const char*, int) {
  errno = EPERM;
  return -1;
}

/// As on a file system that has no hard links.
std::unique_ptr<StoreUnderTest> make_files_without_links() {
  static const Syscalls calls = [] {
    Syscalls changed = kSyscalls;
    changed.linkat = no_links;
    return changed;
  }();
  return std::make_unique<OsStoreUnderTest>(OsFsOptions{.calls = &calls});
}

INSTANTIATE_TEST_SUITE_P(Files, StoreSuite,
                         testing::Values(StoreMaker{"files", make_files},
                                         StoreMaker{"without_openat2", make_files_without_openat2},
                                         StoreMaker{"without_links", make_files_without_links}),
                         name_of_maker);

}  // namespace
}  // namespace unbroken
