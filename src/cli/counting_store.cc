#include "cli/counting_store.h"

namespace unbroken {

class CountingStore::Reader final : public ObjectReader {
 public:
  Reader(std::unique_ptr<ObjectReader> reader, Count count)
      : reader_(std::move(reader)), count_(std::move(count)) {}
  std::uint64_t bytes() const override { return reader_->bytes(); }
  Result<> read(std::uint64_t offset, MutableBytes into) const override {
    auto done = reader_->read(offset, into);
    if (done.ok()) count_->fetch_add(into.size());
    return done;
  }

 private:
  const std::unique_ptr<ObjectReader> reader_;
  const Count count_;
};

Result<std::string> CountingStore::get(std::string_view key, std::uint64_t bytes_max,
                                       const Deadline& by) const {
  auto got = store_.get(key, bytes_max, by);
  if (got.ok()) bytes_read_->fetch_add(got.value().size());
  return got;
}

Result<std::unique_ptr<ObjectReader>> CountingStore::open_reader(std::string_view key,
                                                                 const Deadline& by) const {
  UNBROKEN_TRY(std::unique_ptr<ObjectReader> reader, store_.open_reader(key, by));
  return std::unique_ptr<ObjectReader>(std::make_unique<Reader>(std::move(reader), bytes_read_));
}

}  // namespace unbroken
