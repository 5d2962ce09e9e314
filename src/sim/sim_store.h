#pragma once
// A Store like an object store's bucket, over the world's SimDisk: whole objects by one request each, and
// folders that are only prefixes. An object is visible before its name is durable; answers get lost, requests
// are applied late or twice; lists are stale.
#include <memory>
#include <string>
#include <string_view>

#include "sim/sim_fault.h"
#include "world/store.h"

namespace unbroken {

class SimProcess;

class SimStore final : public Store {
 public:
  explicit SimStore(SimProcess& process) : process_(process) {}
  Capabilities capabilities() const override;
  StoreIdentity identity() const override { return {.device = 2, .inode = 1, .path = "sim bucket"}; }
  Result<Created> create(std::string_view key, Bytes data, const Deadline& by) override;
  Result<std::unique_ptr<ObjectWriter>> open_writer(std::string_view key, std::uint64_t bytes,
                                                    const Deadline& by) override;
  Result<std::string> get(std::string_view key, std::uint64_t bytes_max, const Deadline& by) const override;
  Result<std::unique_ptr<ObjectReader>> open_reader(std::string_view key, const Deadline& by) const override;
  Result<std::vector<std::string>> list(std::string_view prefix, const Deadline& by) const override;
  Result<> remove(std::string_view key, const Deadline& by) override;
  Result<> remove_folder(std::string_view prefix, const Deadline& by) override;
  Result<> sync(std::string_view prefix, const Deadline& by) override;
  Result<> advise(std::string_view key, Bytes data, const Deadline& by) override;
  Result<> append(std::string_view key, Bytes data, const Deadline& by) override;
  Result<std::uint64_t> free_bytes(const Deadline& by) const override;

 private:
  class Writer;
  class Reader;
  template <class T, class Call>
  Result<T> request(SimOp op, std::string_view key, const Deadline& by, const Call& call) const;
  Result<Created> put(std::string_view key, Bytes data, bool replaces, const Deadline& by);
  void put_later(std::string_view key, Bytes data);
  Result<std::string> fetch(std::string_view key, const Deadline& by) const;

  SimProcess& process_;
};

}  // namespace unbroken
