// A snapshot that several real threads copy, look at and finish while its caller goes on: for a race
// detector, and for the bytes.
#include "snapshot/staging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "format/sums.h"
#include "os/os_executor.h"
#include "os/os_process.h"

namespace unbroken {
namespace {

TEST(Staging, IsFilledByWhoeverComes) {
  const auto executor = OsExecutor::start({.io_threads = 2});
  ASSERT_TRUE(executor.ok());
  const OsProcess process;
  const auto copy_shared = [&](const std::byte* from, MutableBytes into) {
    return process.copy_shared(from, into);
  };
  const auto arena = Arena::make(1);
  std::vector<std::vector<std::byte>> memory(6, std::vector<std::byte>(2 * kChunkBytes + 100));
  for (int round = 0; round < 20; ++round) {
    StateView state;
    for (std::size_t i = 0; i < memory.size(); ++i) {
      std::fill(memory[i].begin(), memory[i].end(), static_cast<std::byte>(17 * i + 1 + round));
      state.tensors.push_back(
          contiguous_view("t" + std::to_string(i), DType::u8, {memory[i].size()}, memory[i].data()));
    }
    state.tree = Node{Dict{}};
    state.later = {0, 2, 4};
    state.written = [] { return std::vector<std::uint32_t>(); };
    const auto staging =
        Staging::begin(std::move(state), *arena, *executor.value(), copy_shared, {.every = 3, .first = 1})
            .value();
    // As a writer does: it reads what is final, while the rest is filled.
    std::atomic<std::uint64_t> sum{0};
    std::thread writer([&] {
      const Bytes image = staging->image().bytes();
      for (std::uint64_t at = 0; at < image.size(); at += kChunkBytes) {
        const std::uint64_t end = std::min<std::uint64_t>(at + kChunkBytes, image.size());
        executor.value()->join([&] { return staging->is_final(at, end); });
        for (const std::byte b : image.subspan(at, end - at)) sum += std::to_integer<std::uint64_t>(b);
      }
    });
    Result<Snapshot> snapshot = Error(Code::bug, "not finished");
    std::thread strand([&] { snapshot = staging->finish(); });
    staging->copy_at_once();
    for (std::vector<std::byte>* const one : {&memory[1], &memory[3]}) one->assign(one->size(), std::byte{});
    staging->copy();  // the fence
    EXPECT_TRUE(staging->look_again().empty());
    memory[0].assign(memory[0].size(), std::byte{});
    strand.join();
    writer.join();
    ASSERT_TRUE(snapshot.ok()) << snapshot.error().what();
    for (std::size_t i = 0; i < memory.size(); ++i) {
      const IndexedTensor& t = *snapshot.value().index.find("t" + std::to_string(i));
      const Bytes seen = snapshot.value().image.bytes().subspan(t.offset, t.bytes);
      EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [&](std::byte b) {
        return b == static_cast<std::byte>(17 * i + 1 + round);
      })) << i;
    }
    std::uint64_t expected = 0;
    for (const std::byte b : snapshot.value().image.bytes()) expected += std::to_integer<std::uint64_t>(b);
    EXPECT_EQ(sum.load(), expected);
  }
}

}  // namespace
}  // namespace unbroken
