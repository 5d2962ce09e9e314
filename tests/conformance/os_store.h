#pragma once
// A FileStore on a real directory of its own.
#include <gtest/gtest.h>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "conformance/store_suite.h"
#include "filestore/file_store.h"
#include "os/os_clock.h"
#include "os/os_fs.h"
#include "os/test_support.h"

namespace unbroken {

/// One process's view of a run directory.
struct OsClient {
  explicit OsClient(const std::string& directory, const OsFsOptions& options = {})
      : fs(OsFs::open(directory, options).value()), store(*fs, clock, random, {.path = directory}) {}
  Deadline soon() const { return {clock.now() + std::chrono::minutes(5), {}}; }

  std::unique_ptr<OsFs> fs;
  OsClock clock;
  OsRandom random;
  FileStore store;
};

class OsStoreUnderTest final : public StoreUnderTest {
 public:
  explicit OsStoreUnderTest(const OsFsOptions& options = {})
      : mine_(directory_.path(), options), theirs_(directory_.path(), options) {}
  Store& store() override { return mine_.store; }
  Store& other() override { return theirs_.store; }
  Instant now() const override { return mine_.clock.now(); }
  void race(std::vector<std::function<void()>> bodies) override {
    std::vector<std::jthread> threads;
    for (auto& body : bodies) threads.emplace_back(std::move(body));
  }

 private:
  TemporaryDirectory directory_;
  OsClient mine_, theirs_;
};

}  // namespace unbroken
