#pragma once
// A small save of every kind of value, for tests: the same bytes every time.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/index.h"
#include "format/manifest.h"
#include "format/receipt.h"
#include "format/shard.h"
#include "format/sums.h"

namespace unbroken {

struct SampleSave {
  ShardPlan plan;
  std::string shard, index, sums, receipt;  ///< the bytes of the four objects
  Index decoded;
  Receipt parsed;
  SealedManifest manifest;
};

inline std::vector<TensorSpec> sample_tensors() {
  return {{"model.bias", DType::bf16, {3}},
          {"model.weight", DType::f32, {1200, 3}},
          {"model.mask", DType::boolean, {5}},
          {"model.phase", DType::c128, {2}},
          {"model.packed", DType::uint4, {7}},
          {"model.none", DType::f32, {0, 4}},
          {"model.scale", DType::f64, {}},
          {"rng.torch.cpu", DType::u8, {64}},
          {"a/../b \"q\" \\\\ \xe2\x82\xac", DType::i64, {2}}};
}

inline constexpr std::string_view kSampleTree =
    R"({"dict":[["model",{"items":[["bias",{"tensor":"model.bias"}],["weight",{"tensor":"model.weight"}],)"
    R"(["tied",{"tensor":"model.tied"}],["mask",{"tensor":"model.mask"}],["phase",{"tensor":"model.phase"}],)"
    R"(["packed",{"tensor":"model.packed"}],["none",{"tensor":"model.none"}],["scale",{"array":"model.scale"}]],)"
    R"("kind":"OrderedDict"}],["rng",{"dict":[["torch",{"dict":[["cpu",{"tensor":"rng.torch.cpu"}]]}]]}],)"
    R"(["odd",[null,true,-1,18446744073709551615,{"int":"123456789012345678901234567890"},)"
    R"({"float":"7ff8000000000123"},{"complex":["3ff0000000000000","fff0000000000000"]},"na\u00efve",)"
    R"({"str16":"610000d8"},{"bytes":"00ff"},{"numpy":{"bits":"000000000000f03f","dtype":"F64"}},)"
    R"({"dtype":"BF16"},{"tuple":[1,{"tuple":[]}]},{"items":[3,4],"kind":"Size"},)"
    R"({"items":["a",1],"kind":"set"},{"items":[1],"kind":"frozenset"},)"
    R"({"items":[1,2],"kind":"deque","maxlen":4},{"items":[["k",3]],"kind":"Counter"},)"
    R"({"items":[[1,2]],"kind":"defaultdict_none"},{"dict":[[1,"int"],["1","str"],[null,{"tensor":)"
    R"("a/../b \"q\" \\\\ \u20ac"}]]}]]]})";

/// Tensors of several types, a tied one, an empty one, and a tree of every kind. Chunks are small so that
/// there are several.
inline SampleSave sample_save(SaveId save = {1200, 3, 0}, std::uint64_t chunk_bytes = 4096,
                              OpenRef open = {4, sha256(as_bytes("the OPEN record"))},
                              std::optional<SaveId> resume = SaveId{1100, 2, 0}) {
  const std::vector<TensorSpec> specs = sample_tensors();
  SampleSave out;
  out.plan = plan_shard(specs).value();
  out.shard = out.plan.header;
  out.shard.resize(out.plan.file_bytes);
  for (std::size_t i = out.plan.data_offset; i < out.shard.size(); ++i)
    out.shard[i] = static_cast<char>((i * 2654435761U + save.step) >> 7);
  for (std::size_t i = 0; i < 5; ++i) out.shard[out.plan.offsets[2] + i] = static_cast<char>(i % 2);  // BOOL
  const Bytes bytes = as_bytes(out.shard);

  Index& index = out.decoded;
  index.save = save;
  index.nonce = Nonce{0x0123456789abcdef};
  index.chunk_bytes = chunk_bytes;
  index.data_offset = out.plan.data_offset;
  index.file_bytes = out.plan.file_bytes;
  for (const std::uint32_t i : out.plan.order) {
    const std::uint64_t offset = out.plan.offsets[i], size = out.plan.bytes[i];
    index.tensors.push_back({specs[i].name, specs[i].dtype, specs[i].shape, offset, size,
                             xxh128(bytes.subspan(offset, size)), std::nullopt});
  }
  index.aliases = {{"model.tied", "model.weight"}};
  index.tree = parse_tree(kSampleTree).value();
  out.index = encode_index(index).value();

  std::vector<Xxh128> chunks;
  for (std::size_t at = 0; at < bytes.size(); at += chunk_bytes)
    chunks.push_back(xxh128(bytes.subspan(at, std::min<std::size_t>(chunk_bytes, bytes.size() - at))));
  out.sums = encode_sums(chunks);

  Receipt& receipt = out.parsed;
  receipt.save = save;
  receipt.nonce = index.nonce;
  receipt.life = Nonce{0xfeedfacecafebeef};
  receipt.open = open;
  receipt.resume = resume;
  receipt.shard_bytes = index.file_bytes;
  receipt.index = content_ref(out.index);
  receipt.sums = content_ref(out.sums);
  out.receipt = encode_receipt(receipt).value();

  Manifest manifest;
  manifest.save = save;
  manifest.open = receipt.open;
  manifest.resume = receipt.resume;
  manifest.receipts = {receipt};
  manifest.provenance = {{"host", "node-1"}, {"torch", "2.13.0"}};
  manifest.details = Json{{"argv", {"train.py", "--lr", "0.1"}}};
  manifest.metrics = {{"loss", 0.1}, {"step_s", 0.25}};
  out.manifest = encode_manifest(manifest).value();
  return out;
}

}  // namespace unbroken
