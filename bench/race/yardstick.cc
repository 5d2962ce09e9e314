// The yardstick of `./dev bench`: what the machine gives to the plainest program. It takes one order a line
// on its input and answers each with seconds: of its wall clock, then of its processors. Its memory is
// touched before any clock runs and used again for every order. It keeps nothing and checks nothing.
//
//   write FILE BYTES BLOCK DEPTH KIND   a new file: preallocated, O_DIRECT, fsync of the file and of its
//   directory;
//                                       KIND: uring (registered buffers) or threads (pwrite)
//   read FILE BYTES BLOCK DEPTH KIND    the same, read into DEPTH blocks in turn
//   buffered_write FILE BYTES           through the page cache, with both fsyncs
//   buffered_read FILE BYTES            through the page cache, into memory of that size
//   memcpy BYTES                        one thread, both sides touched before
//   copy_hash BYTES                     the same with an XXH3-128 of each MiB, while it is in the cache
#include <fcntl.h>
#include <liburing.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <xxhash.h>
#if __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>  // the widest vectors of the processor
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kMib = 1 << 20;

[[noreturn]] void fail(const std::string& what) {
  std::cerr << "yardstick: " << what << ": " << std::strerror(errno) << std::endl;
  std::exit(1);
}

void must(bool is_so, const std::string& what) {
  if (!is_so) fail(what);
}

double wall_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_s() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// Memory in huge pages where there are any, filled with bytes that no device can shrink; kept until a larger
/// is asked for.
class Arena {
 public:
  char* of(std::uint64_t bytes) {
    if (bytes <= bytes_) return at_;
    if (at_ != nullptr) munmap(at_, bytes_);
    bytes_ = (bytes + 2 * kMib - 1) / (2 * kMib) * (2 * kMib);
    void* got = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(got != MAP_FAILED, "mmap");
    madvise(got, bytes_, MADV_HUGEPAGE);
    at_ = static_cast<char*>(got);
    std::uint64_t x = 88172645463325252U;
    for (std::uint64_t i = 0; i < bytes_; i += 8) {
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
      std::memcpy(at_ + i, &x, 8);
    }
    return at_;
  }

 private:
  char* at_ = nullptr;
  std::uint64_t bytes_ = 0;
};

Arena source, destination;

struct Transfer {
  int fd;
  bool is_write;
  std::uint64_t bytes, block;
  unsigned depth;
  std::uint64_t length(std::uint64_t offset) const { return std::min(block, bytes - offset); }
};

void by_threads(const Transfer& t, char* memory) {
  std::atomic<std::uint64_t> next{0};
  std::vector<std::thread> workers;
  for (unsigned i = 0; i < t.depth; ++i) {
    workers.emplace_back([&, own = memory + i * t.block] {
      for (std::uint64_t offset; (offset = next.fetch_add(t.block)) < t.bytes;) {
        const auto length = t.length(offset);
        const auto done =
            t.is_write ? pwrite(t.fd, own, length, off_t(offset)) : pread(t.fd, own, length, off_t(offset));
        must(done == ssize_t(length), "a transfer was cut short");
      }
    });
  }
  for (auto& worker : workers) worker.join();
}

/// A ring with the registered blocks of `memory`; made before the clock runs.
class Ring {
 public:
  Ring(char* memory, std::uint64_t block, unsigned depth) : memory_(memory), block_(block), depth_(depth) {
    errno = -io_uring_queue_init(depth, &ring_, 0);
    must(errno == 0, "io_uring");
    std::vector<iovec> blocks;
    for (unsigned i = 0; i < depth; ++i) blocks.push_back({memory + i * block, block});
    errno = -io_uring_register_buffers(&ring_, blocks.data(), depth);
    must(errno == 0, "registering buffers");
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() { io_uring_queue_exit(&ring_); }

  void run(const Transfer& t) {
    std::vector<unsigned> free;
    for (unsigned i = 0; i < depth_; ++i) free.push_back(i);
    std::vector<std::uint64_t> lengths(depth_);
    for (std::uint64_t offset = 0; offset < t.bytes || free.size() < depth_;) {
      for (; offset < t.bytes && !free.empty(); free.pop_back()) {
        const unsigned slot = free.back();
        const auto length = unsigned(t.length(offset));
        io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
        if (t.is_write) {
          io_uring_prep_write_fixed(sqe, t.fd, memory_ + slot * block_, length, offset, int(slot));
        } else {
          io_uring_prep_read_fixed(sqe, t.fd, memory_ + slot * block_, length, offset, int(slot));
        }
        io_uring_sqe_set_data64(sqe, slot);
        lengths[slot] = length;
        offset += length;
      }
      io_uring_submit(&ring_);
      io_uring_cqe* cqe = nullptr;
      errno = -io_uring_wait_cqe(&ring_, &cqe);
      must(errno == 0, "waiting");
      do {
        const auto slot = unsigned(io_uring_cqe_get_data64(cqe));
        errno = cqe->res < 0 ? -cqe->res : EIO;
        must(cqe->res == int(lengths[slot]), "a transfer was cut short");
        io_uring_cqe_seen(&ring_, cqe);
        free.push_back(slot);
      } while (io_uring_peek_cqe(&ring_, &cqe) == 0);
    }
  }

 private:
  io_uring ring_{};
  char* memory_;
  std::uint64_t block_;
  unsigned depth_;
};

void sync_both(int fd, const std::string& path) {
  must(fsync(fd) == 0, "fsync of " + path);
  const auto folder = path.substr(0, path.rfind('/'));
  const int dir = open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  must(dir >= 0 && fsync(dir) == 0, "fsync of " + folder);
  close(dir);
}

int open_new(const std::string& path, int flags) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | flags, 0644);
  must(fd >= 0, path);
  return fd;
}

using Seconds = std::pair<double, double>;

template <typename Call>
Seconds timed(const Call& call) {
  const Seconds begun{wall_s(), cpu_s()};
  call();
  return {wall_s() - begun.first, cpu_s() - begun.second};
}

Seconds direct(bool is_write, std::istringstream& order) {
  std::string path, kind;
  Transfer t{-1, is_write, 0, 0, 0};
  order >> path >> t.bytes >> t.block >> t.depth >> kind;
  t.bytes = (t.bytes + kPage - 1) / kPage * kPage;
  char* memory = source.of(t.block * t.depth);
  const auto whole = [&](const auto& transfer) {
    t.fd = is_write ? open_new(path, O_DIRECT) : open(path.c_str(), O_RDONLY | O_DIRECT);
    must(t.fd >= 0, path);
    if (is_write) must(posix_fallocate(t.fd, 0, off_t(t.bytes)) == 0, "fallocate");
    transfer();
    if (is_write) sync_both(t.fd, path);
    close(t.fd);
  };
  if (kind == "threads") return timed([&] { whole([&] { by_threads(t, memory); }); });
  Ring ring(memory, t.block, t.depth);
  return timed([&] { whole([&] { ring.run(t); }); });
}

Seconds buffered(bool is_write, std::istringstream& order) {
  std::string path;
  std::uint64_t bytes = 0;
  order >> path >> bytes;
  char* memory = (is_write ? source : destination).of(bytes);
  return timed([&] {
    const int fd = is_write ? open_new(path, 0) : open(path.c_str(), O_RDONLY);
    must(fd >= 0, path);
    for (std::uint64_t offset = 0; offset < bytes;) {
      const auto length = std::min<std::uint64_t>(8 * kMib, bytes - offset);
      const auto done = is_write ? write(fd, memory + offset, length) : read(fd, memory + offset, length);
      must(done > 0, "a transfer was cut short");
      offset += std::uint64_t(done);
    }
    if (is_write) sync_both(fd, path);
    close(fd);
  });
}

Seconds copy(bool with_hash, std::istringstream& order) {
  std::uint64_t bytes = 0;
  order >> bytes;
  const char* from = source.of(bytes);
  char* to = destination.of(bytes);
  std::uint64_t sum = 0;
  const auto taken = timed([&] {
    for (std::uint64_t offset = 0; offset < bytes; offset += kMib) {
      const auto length = std::min(kMib, bytes - offset);
      std::memcpy(to + offset, from + offset, length);
      if (with_hash) sum ^= XXH3_128bits(to + offset, length).low64;
    }
  });
  must(sum != 1 || bytes == 0, "no hash is 1");  // so that the sum is needed
  return taken;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream order(line);
    std::string verb;
    order >> verb;
    Seconds taken{};
    if (verb == "write" || verb == "read") {
      taken = direct(verb == "write", order);
    } else if (verb == "buffered_write" || verb == "buffered_read") {
      taken = buffered(verb == "buffered_write", order);
    } else if (verb == "memcpy" || verb == "copy_hash") {
      taken = copy(verb == "copy_hash", order);
    } else {
      errno = EINVAL;
      fail(line);
    }
    std::printf("%.9f %.9f\n", taken.first, taken.second);
    std::fflush(stdout);
  }
  return 0;
}
