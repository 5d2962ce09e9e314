#pragma once
// The Fs of one simulated process over the shared SimDisk: every call is a scheduling point, an event of the
// trace and a place where the fault plan may strike. Without a process it is an observer: calls take effect
// at once, are not traced and never fail by plan; for checkers and for preparing a disk.
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "sim/sim_fault.h"
#include "simdisk/sim_disk.h"
#include "world/fs.h"

namespace unbroken {

class SimProcess;
struct SimThread;

class SimFs final : public Fs {
 public:
  SimFs(SimDisk& disk, SimProcess* process) : disk_(disk), process_(process) {}
  ~SimFs() override;
  SimFs(const SimFs&) = delete;
  SimFs& operator=(const SimFs&) = delete;

  Result<FileId> create_excl(std::string_view path) override;
  Result<FileId> open_read(std::string_view path) const override;
  void write_at(FileId file, std::uint64_t offset, BufferRef data, Completion done) override;
  void settle(FileId file) override;
  Result<std::uint64_t> read_at(FileId file, std::uint64_t offset, MutableBytes into) const override;
  Result<std::uint64_t> size(FileId file) const override;
  Result<> sync(FileId file) override;
  Result<> close(FileId file) const override;
  Result<Created> link(std::string_view from, std::string_view to) override;
  Result<> rename(std::string_view from, std::string_view to) override;
  Result<> unlink(std::string_view path) override;
  Result<Created> make_dir(std::string_view path) override;
  Result<> remove_dir(std::string_view path) override;
  Result<> sync_dir(std::string_view path) override;
  Result<std::vector<std::string>> list(std::string_view dir) const override;
  Result<FileInfo> info(std::string_view path) const override;
  Result<> append(std::string_view path, Bytes data) override;
  Result<std::uint64_t> free_bytes() const override;

  std::size_t open_count() const { return open_count_; }
  void close_all();

 private:
  struct Handle {
    SimNodeRef node;
    std::shared_ptr<const std::string> path;
    std::uint32_t generation = 0;
    bool is_writable = false, is_failed = false;
  };
  struct Write {
    FileId file;
    std::uint64_t offset;
    BufferRef data;
    Completion done;
  };
  template <class T, class Call>
  Result<T> run(SimOp op, std::string_view path, const Call& call) const;
  template <class T, class Call>
  Result<T> run_on(SimOp op, FileId file, const Call& call) const;
  Result<FileId> open_handle(SimNodeRef node, std::string_view path, bool is_writable) const;
  Handle* find(FileId file) const;
  Result<> write_now(FileId file, std::uint64_t offset, Bytes data);
  void device();

  SimDisk& disk_;
  SimProcess* const process_;
  mutable std::deque<Handle> handles_;
  mutable std::vector<std::uint32_t> spare_;
  mutable std::size_t open_count_ = 0;
  std::vector<Write> writes_;      ///< not begun
  std::vector<FileId> in_flight_;  ///< whose completion was not called
  std::vector<SimThread*> settling_;
  bool has_device_ = false;
  SimThread* idle_device_ = nullptr;
};

}  // namespace unbroken
