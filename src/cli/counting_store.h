#pragma once
// A Store that counts the bytes read through it, for progress while one protocol step reads gigabytes.
#include <atomic>
#include <memory>

#include "world/store.h"

namespace unbroken {

class CountingStore final : public Store {
 public:
  explicit CountingStore(Store& store) : store_(store) {}
  std::uint64_t bytes_read() const { return bytes_read_->load(); }

  Result<std::string> get(std::string_view key, std::uint64_t bytes_max, const Deadline& by) const override;
  Result<std::unique_ptr<ObjectReader>> open_reader(std::string_view key, const Deadline& by) const override;

  Capabilities capabilities() const override { return store_.capabilities(); }
  StoreIdentity identity() const override { return store_.identity(); }
  Result<Created> create(std::string_view key, Bytes data, const Deadline& by) override {
    return store_.create(key, data, by);
  }
  Result<std::unique_ptr<ObjectWriter>> open_writer(std::string_view key, std::uint64_t bytes,
                                                    const Deadline& by) override {
    return store_.open_writer(key, bytes, by);
  }
  Result<std::vector<std::string>> list(std::string_view prefix, const Deadline& by) const override {
    return store_.list(prefix, by);
  }
  Result<> remove(std::string_view key, const Deadline& by) override { return store_.remove(key, by); }
  Result<> remove_folder(std::string_view prefix, const Deadline& by) override {
    return store_.remove_folder(prefix, by);
  }
  Result<> sync(std::string_view prefix, const Deadline& by) override { return store_.sync(prefix, by); }
  Result<> advise(std::string_view key, Bytes data, const Deadline& by) override {
    return store_.advise(key, data, by);
  }
  Result<> append(std::string_view key, Bytes data, const Deadline& by) override {
    return store_.append(key, data, by);
  }
  Result<std::uint64_t> free_bytes(const Deadline& by) const override { return store_.free_bytes(by); }

 private:
  using Count = std::shared_ptr<std::atomic<std::uint64_t>>;
  class Reader;

  Store& store_;
  const Count bytes_read_ = std::make_shared<std::atomic<std::uint64_t>>(0);
};

}  // namespace unbroken
