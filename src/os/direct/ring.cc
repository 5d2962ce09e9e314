#include "os/direct/ring.h"

#include <linux/io_uring.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "os/descriptor.h"
#include "os/errno.h"
#include "os/fork_guard.h"
#include "os/signals_blocked.h"

namespace unbroken {
namespace {

using Number = std::atomic_ref<unsigned>;  // one that the kernel reads or writes too

/// Memory that is shared with the kernel.
class Shared {
 public:
  Shared() = default;
  Shared(int ring, std::size_t bytes, off_t what)
      : bytes_(bytes),
        at_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, what)) {}
  ~Shared() {
    if (*this) ::munmap(at_, bytes_);
  }
  Shared(Shared&& other) noexcept : bytes_(other.bytes_), at_(std::exchange(other.at_, MAP_FAILED)) {}
  Shared& operator=(Shared&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(at_, other.at_);
    return *this;
  }
  explicit operator bool() const { return at_ != MAP_FAILED; }
  template <class T = unsigned>
  T* at(unsigned offset = 0) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(at_) + offset);
  }

 private:
  std::size_t bytes_ = 0;
  void* at_ = MAP_FAILED;
};

/// One write, from write() until it was told of. The ring's thread stops at a null one.
struct Write {
  int file;
  Ring::Told told;
};

}  // namespace

struct Ring::Impl {
  explicit Impl(const Syscalls& with) : calls(with) {}
  /// True where all of it is there.
  bool map(const io_uring_params& made) {
    params = made;
    queue =
        Shared(ring.get(), params.sq_off.array + params.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    entries = Shared(ring.get(), params.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES);
    answers =
        Shared(ring.get(), params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING);
    return queue && entries && answers;
  }

  int enter(unsigned submitted, unsigned awaited) const {
    int entered = 0;
    do {
      entered =
          calls.io_uring_enter(ring.get(), submitted, awaited, awaited > 0 ? IORING_ENTER_GETEVENTS : 0);
    } while (entered < 0 && errno == EINTR);
    return entered;
  }

  /// 0, or the errno where the kernel did not take it. With the mutex held.
  int submit(const io_uring_sqe& entry) {
    const Number tail(*queue.at(params.sq_off.tail));
    const unsigned at = tail.load(std::memory_order_relaxed);
    const unsigned slot = at & *queue.at(params.sq_off.ring_mask);
    entries.at<io_uring_sqe>()[slot] = entry;
    queue.at(params.sq_off.array)[slot] = slot;
    tail.store(at + 1, std::memory_order_release);
    const int entered = enter(1, 0);
    if (entered == 1) return 0;
    const int number = entered < 0 ? errno : EAGAIN;
    tail.store(at, std::memory_order_release);  // it reads the queue only when it is entered
    return number;
  }

  /// One write fewer is on its way.
  void tell(const Write& write, int moved) {
    write.told(moved);
    {
      const std::scoped_lock lock(mutex);
      --in_flight;
      if (--by_file[write.file] == 0) by_file.erase(write.file);
    }
    changed.notify_all();
  }

  void reap() {
    const Number head(*answers.at(params.cq_off.head)), tail(*answers.at(params.cq_off.tail));
    for (;;) {
      const unsigned at = head.load(std::memory_order_relaxed);
      if (at == tail.load(std::memory_order_acquire)) {
        if (enter(0, 1) < 0) std::this_thread::yield();  // EAGAIN, EBUSY: for lack of memory
        continue;
      }
      const io_uring_cqe answer =
          answers.at<io_uring_cqe>(params.cq_off.cqes)[at & *answers.at(params.cq_off.ring_mask)];
      head.store(at + 1, std::memory_order_release);
      const std::unique_ptr<Write> write(reinterpret_cast<Write*>(answer.user_data));
      if (!write) return;
      tell(*write, answer.res);
    }
  }

  const Syscalls& calls;
  Descriptor ring;
  unsigned depth = 0;
  io_uring_params params{};
  Shared queue, entries, answers;
  std::mutex mutex;
  std::condition_variable changed;
  unsigned in_flight = 0;
  std::map<int, unsigned> by_file;
  ForkGuard guard;
  std::jthread reaper;
};

Ring::Ring(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Ring>> Ring::open(const Syscalls& calls, unsigned depth) {
  auto impl = std::make_unique<Impl>(calls);
  io_uring_params params{};
  auto made = adopt(calls.io_uring_setup(depth, &params), "io_uring_setup");
  if (!made.ok()) return Error(Code::unsupported, made.error().what());
  impl->ring = std::move(made).value();
  impl->depth = depth;
  if (!impl->map(params)) return Error(Code::unsupported, errno_error(errno, "mmap of the ring").what());
  const SignalsBlocked blocked;
  impl->reaper = std::jthread([&me = *impl] { me.reap(); });
  return std::unique_ptr<Ring>(new Ring(std::move(impl)));
}

Ring::~Ring() {
  if (impl_->guard.is_child()) {
    static_cast<void>(impl_.release());  // its thread is the parent's
    return;
  }
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [&] { return impl_->in_flight == 0; });
  io_uring_sqe last{};
  last.opcode = IORING_OP_NOP;
  while (impl_->submit(last) != 0) std::this_thread::yield();
}

void Ring::write(int file, std::uint64_t offset, Bytes data, Told told) {
  auto write = std::make_unique<Write>(Write{file, std::move(told)});
  io_uring_sqe entry{};
  entry.opcode = IORING_OP_WRITE;
  entry.fd = file;
  entry.off = offset;
  entry.addr = reinterpret_cast<std::uint64_t>(data.data());
  entry.len = static_cast<unsigned>(std::min<std::size_t>(data.size(), 0x7ffff000));
  entry.user_data = reinterpret_cast<std::uint64_t>(write.get());
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [&] { return impl_->in_flight < impl_->depth; });
  ++impl_->in_flight;
  ++impl_->by_file[file];
  const int refused = impl_->submit(entry);
  lock.unlock();
  if (refused == 0) return static_cast<void>(write.release());
  impl_->tell(*write, -refused);
}

void Ring::settle(int file) {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [&] { return !impl_->by_file.contains(file); });
}

}  // namespace unbroken
