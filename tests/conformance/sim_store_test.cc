// The simulated storages keep the promises of a Store, and a FileStore keeps them over a disk that can lose.
#include "sim/sim_store.h"

#include <optional>

#include "conformance/store_suite.h"
#include "filestore/file_store.h"
#include "sim/sim_world.h"

namespace unbroken {
namespace {

std::unique_ptr<Store> make_file_store(SimProcess& process) {
  return std::make_unique<FileStore>(process.fs(), process.clock(), process.random());
}

std::unique_ptr<Store> make_bucket(SimProcess& process) {
  return std::make_unique<SimStore>(process);
}

/// A world with one process a run(), whose threads race.
class SimStoreUnderTest final : public StoreUnderTest {
 public:
  using Make = std::unique_ptr<Store> (*)(SimProcess&);

  SimStoreUnderTest(Make make, const SimOptions& options) : make_(make), world_(options) {}
  Store& store() override { return *mine_; }
  Store& other() override { return *theirs_; }
  Instant now() const override { return world_.now(); }

  void run(const std::function<void()>& body) override {
    world_.spawn("client", [&](SimProcess& me) {
      process_ = &me;
      mine_ = make_(me);
      theirs_ = make_(me);
      body();
      mine_.reset();
      theirs_.reset();
    });
    const SimEnd end = world_.run();
    EXPECT_EQ(end.why, SimEnd::Why::all_over) << end.failure;
  }

  void race(std::vector<std::function<void()>> bodies) override {
    std::size_t left = bodies.size();
    for (auto& body : bodies) {
      process_->start_thread([this, &left, racer = std::move(body)] {
        racer();
        --left;
        process_->executor().notify();
      });
    }
    const Deadline by{now() + std::chrono::hours(1), {}};
    EXPECT_TRUE(process_->executor().wait([&] { return left == 0; }, by).ok());
  }

  void settle() override {
    const Deadline by{now() + std::chrono::seconds(1), {}};
    EXPECT_TRUE(process_->executor().wait([] { return false; }, by).is(Code::late));
  }

  void lose_power() override { world_.power_loss(); }

 private:
  Make make_;
  SimWorld world_;
  SimProcess* process_ = nullptr;
  std::unique_ptr<Store> mine_, theirs_;
};

StoreMaker maker(std::string name, SimStoreUnderTest::Make make, SimOptions options) {
  return {std::move(name), [=] { return std::make_unique<SimStoreUnderTest>(make, options); }};
}

const auto kSimulated =
    testing::Values(maker("files", make_file_store, {.seed = 1, .is_write_async = false}),
                    maker("files_async", make_file_store, {.seed = 2, .is_write_async = true}),
                    maker("files_ordered", make_file_store, {.seed = 3, .profile = LossProfile::ordered}),
                    maker("bucket", make_bucket, {.seed = 4}));

INSTANTIATE_TEST_SUITE_P(Sim, StoreSuite, kSimulated, name_of_maker);
INSTANTIATE_TEST_SUITE_P(Sim, DurableStoreSuite, kSimulated, name_of_maker);

}  // namespace
}  // namespace unbroken
