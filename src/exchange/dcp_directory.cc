// A directory of torch.distributed.checkpoint: .metadata is a pickle that says which item lies where in which
// .distcp file; each item is a whole file of torch.save.
#include <fmt/format.h>

#include <memory>
#include <unordered_map>
#include <utility>

#include "base/utf8.h"
#include "exchange/foreign_files.h"
#include "exchange/pickle/pickle_calls.h"
#include "exchange/pickle/unpickle.h"
#include "state/names.h"

namespace unbroken {

namespace {

using Kind = PickleValue::Kind;

Error corrupt(std::string why) {
  return Error(Code::corrupt, std::move(why));
}

/// Where one item lies.
struct Item {
  std::string file;
  std::uint64_t offset = 0, bytes = 0;
};

/// A place in the nested state: texts are keys of dicts, numbers are places in lists.
struct PathKey {
  std::string text;
  std::uint64_t index = 0;
  bool is_index = false;
};

std::string identity_of(const PathKey& key) {
  return key.is_index ? fmt::format("#{}", key.index) : "." + key.text;
}

/// The nested state while it is put together.
struct Branch {
  std::optional<Node> leaf;
  std::vector<std::pair<PathKey, std::unique_ptr<Branch>>> below;
  std::unordered_map<std::string, std::size_t> places;

  Branch& at(const PathKey& key) {
    const auto [it, is_new] = places.try_emplace(identity_of(key), below.size());
    if (is_new) below.emplace_back(key, std::make_unique<Branch>());
    return *below[it->second].second;
  }
};

Result<Node> node_of(Branch& branch) {
  if (branch.leaf) {
    if (!branch.below.empty()) return corrupt("a value and what lies below it have one name");
    return std::move(*branch.leaf);
  }
  const bool is_list = !branch.below.empty() && branch.below.front().first.is_index;
  Dict dict;
  List list;
  list.items.resize(is_list ? branch.below.size() : 0);
  for (auto& [key, child] : branch.below) {
    if (key.is_index != is_list) return corrupt("a list and a dict have one name");
    UNBROKEN_TRY(Node node, node_of(*child));
    if (!is_list) {
      dict.items.push_back({Node{key.text}, std::move(node)});
    } else if (key.index < list.items.size()) {
      list.items[key.index] = std::move(node);  // numbers are unequal, so every place is filled
    } else {
      return corrupt("a list has a hole");
    }
  }
  return is_list ? Node{std::move(list)} : Node{std::move(dict)};
}

class Directory {
 public:
  Directory(const PickleHeap& heap, const NumberedSources& files, Naming naming, LeftOut without)
      : heap_(heap), files_(files), naming_(naming), without_(without) {}

  Result<ImportPlan> read(const PickleValue& metadata) {
    UNBROKEN_DO(read_items(metadata));
    const PickleValue* state = attribute(heap_, metadata, "state_dict_metadata");
    if (state == nullptr || state->kind != Kind::dict) return corrupt(".metadata describes no state");
    const PickleValue* paths = attribute(heap_, metadata, "planner_data");
    UNBROKEN_DO(read_paths(paths));
    for (std::size_t i = 0; i + 1 < state->items.size(); i += 2) {
      const PickleValue& name = value(state->items[i]);
      if (name.kind != Kind::text) return corrupt(".metadata has a name that is no text");
      auto taken = take(name.text, value(state->items[i + 1]));
      if (!taken.ok()) return std::move(taken).error().with(foreign_text(name.text));
    }
    UNBROKEN_TRY(plan_.tree, node_of(root_));
    if (root_.below.empty()) plan_.tree = Node{Dict{}};
    if (!std::holds_alternative<Dict>(plan_.tree.value)) return corrupt(".metadata describes no dict");
    return std::move(plan_);
  }

 private:
  const PickleValue& value(Ref ref) const { return heap_.values[ref]; }

  Result<Shape> shape_of(const PickleValue* size) const {
    if (size == nullptr || size->kind != Kind::size || size->items.size() > kRankMax)
      return corrupt("a shape in .metadata is damaged");
    Shape out;
    for (const Ref item : size->items) {
      if (value(item).number < 0) return corrupt("a shape in .metadata is negative");
      out.push_back(static_cast<std::uint64_t>(value(item).number));
    }
    return out;
  }

  static std::string key_of(std::string_view name, const std::optional<Shape>& offset) {
    std::string key(name);
    key += offset ? '\1' : '\0';
    for (const std::uint64_t o : offset.value_or(Shape())) key += fmt::format("{},", o);
    return key;
  }

  Result<> read_items(const PickleValue& metadata) {
    const PickleValue* storage = attribute(heap_, metadata, "storage_data");
    if (storage == nullptr || storage->kind != Kind::dict)
      return corrupt(".metadata says of nothing where it is");
    for (std::size_t i = 0; i + 1 < storage->items.size(); i += 2) {
      const PickleValue &index = value(storage->items[i]), &info = value(storage->items[i + 1]);
      const PickleValue* name = attribute(heap_, index, "fqn");
      const PickleValue* file = attribute(heap_, info, "relative_path");
      const PickleValue* offset = attribute(heap_, info, "offset");
      const PickleValue* length = attribute(heap_, info, "length");
      const PickleValue* transforms = attribute(heap_, info, "transform_descriptors");
      const auto is = [](const PickleValue* v, Kind kind) { return v != nullptr && v->kind == kind; };
      if (index.global != Global::metadata_index || info.global != Global::storage_info ||
          !is(name, Kind::text) || !is(file, Kind::text) || !is(offset, Kind::integer) ||
          !is(length, Kind::integer) || offset->number < 0 || length->number < 0)
        return corrupt(".metadata says of an item in an unknown way where it is");
      if (transforms != nullptr && transforms->kind != Kind::none && !transforms->items.empty())
        return corrupt(
            fmt::format("{}: it is compressed or otherwise transformed", foreign_text(name->text)));
      std::optional<Shape> place;
      if (const PickleValue* where = attribute(heap_, index, "offset");
          where != nullptr && where->kind != Kind::none) {
        UNBROKEN_TRY(place, shape_of(where));
      }
      Item item{file->text, static_cast<std::uint64_t>(offset->number),
                static_cast<std::uint64_t>(length->number)};
      if (!items_.try_emplace(key_of(name->text, place), std::move(item)).second)
        return corrupt(fmt::format("{}: it is said twice where it is", foreign_text(name->text)));
    }
    return Done{};
  }

  /// How names are paths. A writer that keeps none has flat names.
  Result<> read_paths(const PickleValue* paths) {
    if (paths == nullptr || paths->kind == Kind::none) return Done{};
    if (paths->kind != Kind::dict) return corrupt("its planner_data is of an unknown kind");
    for (std::size_t i = 0; i + 1 < paths->items.size(); i += 2) {
      const PickleValue &name = value(paths->items[i]), &keys = value(paths->items[i + 1]);
      if (name.kind != Kind::text || keys.kind != Kind::tuple || keys.items.empty() ||
          keys.items.size() >= kTreeDepthMax)
        return corrupt("its planner_data is of an unknown kind");
      std::vector<PathKey> path;
      for (const Ref ref : keys.items) {
        const PickleValue& key = value(ref);
        if (key.kind == Kind::text)
          path.push_back({key.text, 0, false});
        else if (key.kind == Kind::integer && key.number >= 0)
          path.push_back({"", static_cast<std::uint64_t>(key.number), true});
        else
          return corrupt("its planner_data is of an unknown kind");
      }
      paths_[name.text] = std::move(path);
    }
    return Done{};
  }

  Result<const NumberedSource*> source_of(const Item& item) const {
    const auto it = files_.find(item.file);
    if (it == files_.end())
      return corrupt(
          fmt::format("it lies in \"{}\", which is no file of this directory", foreign_text(item.file)));
    const std::uint64_t bytes = it->second.source->bytes();
    if (item.offset > bytes || item.bytes > bytes - item.offset)
      return corrupt(fmt::format("it ends beyond {}", foreign_text(item.file)));
    return &it->second;
  }

  Result<> take(const std::string& name, const PickleValue& described) {
    const auto known = paths_.find(name);
    const std::vector<PathKey> path =
        known == paths_.end() ? std::vector<PathKey>{{name, 0, false}} : known->second;
    const bool is_tensor = described.global == Global::tensor_metadata;
    if (described.kind != Kind::record || (!is_tensor && described.global != Global::bytes_metadata))
      return corrupt("it is neither a tensor nor bytes");
    std::string own, entry;
    Branch* branch = &root_;
    for (const PathKey& key : path) {
      const bool is_last = &key == &path.back();
      const Node node = key.is_index ? Node{static_cast<std::int64_t>(key.index)} : Node{key.text};
      if (!std::holds_alternative<std::int64_t>(node.value) && !is_utf8(key.text))
        return corrupt("a key is not UTF-8");
      own = join_name(own, key_segment(node, is_tensor && is_last, naming_));
      if (!key.is_index) entry = own;
      if (!key.is_index && is_left_out(without_, own)) {
        plan_.left_out.push_back(own);
        return Done{};
      }
      branch = &branch->at(key);
    }
    if (branch->leaf) return corrupt("two values have one name");
    if (is_tensor) return take_tensor(name, own, described, *branch);
    const auto item = items_.find(key_of(name, std::nullopt));
    if (item == items_.end()) return corrupt("it is not said where it is");
    UNBROKEN_TRY(const NumberedSource* source, source_of(item->second));
    const PartOfSource part(*source->source, item->second.offset, item->second.bytes);
    UNBROKEN_TRY(TorchArchive archive, TorchArchive::open(part, source->file, item->second.offset));
    StateTaker taker(
        archive.heap(), [&](const PickleValue& storage) { return archive.find(storage, plan_); }, naming_,
        plan_, without_);
    UNBROKEN_TRY(branch->leaf, taker.take(archive.root(), own, entry, path.size()));
    return Done{};
  }

  Result<> take_tensor(const std::string& name, const std::string& own, const PickleValue& described,
                       Branch& branch) {
    const PickleValue* properties = attribute(heap_, described, "properties");
    const PickleValue* chunks = attribute(heap_, described, "chunks");
    if (properties == nullptr || properties->global != Global::tensor_properties || chunks == nullptr ||
        chunks->kind != Kind::list)
      return corrupt("a tensor in .metadata is damaged");
    ImportedTensor tensor;
    tensor.name = own;
    UNBROKEN_TRY(tensor.dtype, dtype_of(*properties));
    UNBROKEN_TRY(tensor.shape, shape_of(attribute(heap_, described, "size")));
    for (const Ref ref : chunks->items) {
      UNBROKEN_TRY(std::optional<ImportedPiece> piece, piece_of(name, tensor, value(ref)));
      if (piece) tensor.pieces.push_back(std::move(*piece));
    }
    plan_.tensors.push_back(std::move(tensor));
    branch.leaf = Node{TensorRef{own, false}};
    return Done{};
  }

  Result<DType> dtype_of(const PickleValue& properties) const {
    if (properties.is_whole) return properties.dtype;
    const PickleValue* dtype = attribute(heap_, properties, "dtype");
    if (dtype == nullptr || dtype->kind != Kind::dtype) return corrupt("a tensor in .metadata has no dtype");
    return dtype->dtype;
  }

  /// One chunk, from the item that holds it. Nothing for one without elements.
  Result<std::optional<ImportedPiece>> piece_of(const std::string& name, const ImportedTensor& tensor,
                                                const PickleValue& chunk) {
    UNBROKEN_TRY(const Shape begin, shape_of(attribute(heap_, chunk, "offsets")));
    UNBROKEN_TRY(const Shape extent, shape_of(attribute(heap_, chunk, "sizes")));
    if (begin.size() != tensor.shape.size() || extent.size() != tensor.shape.size())
      return corrupt("a chunk has another rank than its tensor");
    const auto item = items_.find(key_of(name, begin));
    if (item == items_.end()) return corrupt("it is not said where a chunk of it is");
    UNBROKEN_TRY(const NumberedSource* source, source_of(item->second));
    const PartOfSource part(*source->source, item->second.offset, item->second.bytes);
    UNBROKEN_TRY(TorchArchive archive, TorchArchive::open(part, source->file, item->second.offset));
    ImportPlan one;
    StateTaker taker(
        archive.heap(), [&](const PickleValue& storage) { return archive.find(storage, plan_); }, naming_,
        one);
    UNBROKEN_TRY(const Node held, taker.take(archive.root(), "chunk", ""));
    const auto* ref = std::get_if<TensorRef>(&held.value);
    if (ref == nullptr || ref->is_array || one.tensors.size() != 1 || one.tensors.front().shape != extent ||
        one.tensors.front().dtype != tensor.dtype)
      return corrupt("a chunk holds something else than .metadata says");
    if (one.tensors.front().pieces.empty()) return std::optional<ImportedPiece>();
    ImportedPiece piece = std::move(one.tensors.front().pieces.front());
    piece.box.begin = begin;
    for (std::size_t axis = 0; axis < begin.size(); ++axis)
      if (__builtin_add_overflow(begin[axis], extent[axis], &piece.box.end[axis]))
        return corrupt("a chunk lies outside of its tensor");
    return std::optional(std::move(piece));
  }

  const PickleHeap& heap_;
  const NumberedSources& files_;
  Naming naming_;
  LeftOut without_;
  ImportPlan plan_;
  Branch root_;
  std::unordered_map<std::string, Item> items_;
  std::unordered_map<std::string, std::vector<PathKey>> paths_;
};

}  // namespace

Result<ImportPlan> read_dcp(std::string_view metadata, const NumberedSources& files, LeftOut without) {
  PickleHeap heap;
  std::string_view rest = metadata;
  UNBROKEN_TRY(const Ref root, unpickle(rest, PickleDialect::dcp_metadata, heap));
  if (!rest.empty()) return corrupt("pickle: something stands behind its end");
  const PickleValue& value = heap.values[root];
  if (value.kind != Kind::record || value.global != Global::metadata)
    return corrupt(".metadata is not what torch.distributed.checkpoint writes");
  return plan_with_names([&](Naming naming) { return Directory(heap, files, naming, without).read(value); });
}

}  // namespace unbroken
