#pragma once
// Every promise of world/store.h as a test, for any Store. A new one is held to them all by linking the
// library unbroken_store_suite and by one line beside its own tests:
//   INSTANTIATE_TEST_SUITE_P(Mine, StoreSuite, testing::Values(StoreMaker{"mine", make_mine}),
//   name_of_maker);
// and, where the power can be cut, the same with DurableStoreSuite.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "world/store.h"

namespace unbroken {

/// A storage of its own, empty at first, with two clients.
class StoreUnderTest {
 public:
  virtual ~StoreUnderTest() = default;
  virtual Store& store() = 0;
  /// As another process sees the same storage.
  virtual Store& other() = 0;
  virtual Instant now() const = 0;
  /// Runs `body` where calls of the store are allowed.
  virtual void run(const std::function<void()>& body) { body(); }
  /// Runs all of `bodies` at once, as far as the world can, until each has ended; called inside run().
  virtual void race(std::vector<std::function<void()>> bodies) = 0;
  /// Returns once every write in flight has been answered; nothing to do where write() answers at once.
  virtual void settle() {}
  /// Drops whatever is not durable; store() and other() are new clients afterwards. Outside run().
  virtual void lose_power() { FAIL() << "this storage cannot lose power"; }
};

struct StoreMaker {
  std::string name;
  std::function<std::unique_ptr<StoreUnderTest>()> make;
  friend std::ostream& operator<<(std::ostream& out, const StoreMaker& maker) { return out << maker.name; }
};

inline std::string name_of_maker(const testing::TestParamInfo<StoreMaker>& info) {
  return info.param.name;
}

class StoreSuite : public testing::TestWithParam<StoreMaker> {
 protected:
  void SetUp() override { world_ = GetParam().make(); }
  StoreUnderTest& world() { return *world_; }
  Store& store() { return world_->store(); }
  Store& other() { return world_->other(); }
  Deadline soon() { return {world_->now() + std::chrono::minutes(5), {}}; }

  Result<Created> create(const std::string& key, std::string_view text) {
    return store().create(key, as_bytes(text), soon());
  }
  Result<std::string> get(const std::string& key) { return store().get(key, 64 << 20, soon()); }
  Result<std::vector<std::string>> list(const std::string& prefix) { return store().list(prefix, soon()); }
  /// Writes `text` through a writer, in pieces of `piece_bytes`, the last one first.
  Result<> write(const std::string& key, const std::string& text, std::size_t piece_bytes);

 private:
  std::unique_ptr<StoreUnderTest> world_;
};

class DurableStoreSuite : public StoreSuite {};

}  // namespace unbroken
