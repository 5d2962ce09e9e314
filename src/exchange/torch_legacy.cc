// torch.save before 1.6: a magic number, a protocol version, facts of the machine, the object and the list of
// storage keys, five pickles one after the other; then for each key the number of elements and the bytes.
// Source: torch/serialization.py, _legacy_save.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "exchange/foreign_files.h"
#include "exchange/pickle/pickle_calls.h"
#include "exchange/pickle/unpickle.h"

namespace unbroken {

namespace {

using Kind = PickleValue::Kind;

constexpr std::uint64_t kPicklesBytesMax = std::uint64_t{256} << 20;
constexpr std::string_view kMagic = "119547037146038801333356";
constexpr std::int64_t kProtocol = 1001;

Error corrupt(std::string why) {
  return Error(Code::corrupt, std::move(why));
}

struct Stored {
  std::uint64_t offset, bytes;
};

class Legacy {
 public:
  explicit Legacy(const ByteSource& file) : file_(file) {}

  Result<> read() {
    const std::uint64_t count = std::min(file_.bytes(), kPicklesBytesMax);
    UNBROKEN_TRY(const std::string head, read_range(file_, 0, count, count));
    std::string_view rest = head;
    const auto next = [&] { return unpickle(rest, PickleDialect::torch_file, heap); };
    UNBROKEN_TRY(const Ref magic, next());
    if (heap.values[magic].kind != Kind::big_integer || heap.values[magic].text != kMagic)
      return corrupt("a pickle that torch.save did not write");
    UNBROKEN_TRY(const Ref protocol, next());
    if (heap.values[protocol].kind != Kind::integer || heap.values[protocol].number != kProtocol)
      return corrupt("it is of an unknown protocol of torch.save");
    UNBROKEN_TRY(const Ref system, next());
    const PickleValue* is_little = attribute(heap, heap.values[system], "little_endian");
    if (is_little == nullptr || is_little->kind != Kind::boolean || is_little->number == 0)
      return corrupt("its numbers are big-endian: this version reads little-endian ones");
    UNBROKEN_TRY(root, next());
    UNBROKEN_TRY(const Ref keys, next());
    return locate(heap.values[keys], head.size() - rest.size());
  }

  Result<StoragePlace> find(const PickleValue& storage) const {
    const auto it = stored_.find(storage.text);
    if (it == stored_.end()) return corrupt(fmt::format("storage {} is missing from the file", storage.text));
    const std::uint64_t said = static_cast<std::uint64_t>(storage.number) * (bits_of(storage.dtype) / 8);
    if (it->second.bytes != said)
      return corrupt(
          fmt::format("storage {} has {} bytes, the pickle says {}", storage.text, it->second.bytes, said));
    return StoragePlace{0, it->second.offset};
  }

  PickleHeap heap;
  Ref root = 0;

 private:
  Result<> locate(const PickleValue& keys, std::uint64_t at) {
    std::map<std::string_view, std::uint64_t> element_bytes;
    for (const PickleValue& value : heap.values)
      if (value.kind == Kind::storage) element_bytes.emplace(value.text, bits_of(value.dtype) / 8);
    if (keys.kind != Kind::list) return corrupt("the list of its storages is damaged");
    for (const Ref ref : keys.items) {
      const PickleValue& key = heap.values[ref];
      const auto it = key.kind == Kind::text ? element_bytes.find(key.text) : element_bytes.end();
      if (it == element_bytes.end() && !heap.not_listed.empty())
        return corrupt(
            fmt::format("it cannot be told how long a storage is: the pickle names {}, which is not among "
                        "what may be read; nothing of it was run",
                        *heap.not_listed.begin()));
      if (it == element_bytes.end()) return corrupt("the list of its storages names one that is not used");
      UNBROKEN_TRY(const std::string count_bytes, read_range(file_, at, 8, 8));
      std::uint64_t count = 0;
      for (unsigned i = 0; i < 8; ++i)
        count |= std::uint64_t{static_cast<unsigned char>(count_bytes[i])} << (8 * i);
      at += 8;
      if (count > (file_.bytes() - at) / it->second)
        return corrupt(fmt::format("storage {} ends beyond the file", foreign_text(key.text)));
      if (!stored_.try_emplace(key.text, Stored{at, count * it->second}).second)
        return corrupt("the list of its storages names one twice");
      at += count * it->second;
    }
    if (at != file_.bytes()) return corrupt("something stands behind its end");
    return Done{};
  }

  const ByteSource& file_;
  std::map<std::string, Stored, std::less<>> stored_;
};

}  // namespace

Result<ImportPlan> read_torch_legacy(const ByteSource& file, LeftOut without) {
  Legacy legacy(file);
  UNBROKEN_DO(legacy.read());
  return plan_with_names([&](Naming naming) -> Result<ImportPlan> {
    ImportPlan plan;
    plan.has_unchecked_bytes = true;
    StateTaker taker(
        legacy.heap, [&](const PickleValue& storage) { return legacy.find(storage); }, naming, plan, without);
    UNBROKEN_TRY(plan.tree, taker.take_file(legacy.root));
    return plan;
  });
}

}  // namespace unbroken
