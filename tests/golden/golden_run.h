#pragma once
// Small runs as this version writes them, byte for byte the same every time. `sample`: two attempts, a
// checkpoint that was verified, one that is quarantined. `folded`: a journal long enough to have a fold,
// which holds a bit of everything.
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/check.h"
#include "format/keys.h"
#include "format/run_object.h"
#include "format/sample.h"
#include "journal/fold/fold.h"
#include "journal/hint.h"
#include "journal/history.h"
#include "journal/slots.h"

namespace unbroken {

/// Objects by key.
using RunFiles = std::map<std::string, std::string>;

class GoldenRun {
 public:
  /// By name.
  static std::map<std::string, RunFiles> all() {
    GoldenRun sample, folded;
    sample.write_sample();
    folded.write_folded();
    return {{"sample", std::move(sample.files_)}, {"folded", std::move(folded.files_)}};
  }

 private:
  static Open first_open() {
    Open open;
    open.attempt = 1;
    open.life = Nonce{0xaaaa};
    open.owner = {"job-7", "node-1", "boot-1", 1, 4242, 99, 5, 6};
    return open;
  }

  void begin(const Policy& policy) {
    append(Genesis{uuid_, 1, {}});
    files_[std::string(kRunKey)] = encode_run({uuid_, 1, {}}).value();
    append(policy);
  }

  void write_sample() {
    begin(Policy{3, 2});
    const Open first = first_open();
    const OpenRef one = append(first);
    save({100, 1, 0}, one, std::nullopt, 0.5);
    save({200, 1, 0}, one, std::nullopt, 0.25);
    append(Verified{{100, 1, 0}, "run", "node-1"});
    append(Quarantine{{200, 1, 0}, "run", "data/x", "one", "another", "node-1", Nonce{0xaaaa}});
    Open second = first;
    second.attempt = 2;
    second.resume = SaveId{100, 1, 0};
    second.life = Nonce{0xbbbb};
    const std::uint64_t slot = history_.next_slot();
    const OpenRef two = append(second);
    append(Abort{{200, 2, 0}, "the disk was full"});
    save({200, 2, 1}, two, second.resume, 0.125);
    append(Verified{{200, 2, 1}, "run", "node-1"});
    files_[std::string(kHintKey)] = encode_hint({uuid_, history_.next_slot() - 1, history_.head(), slot});
    files_[metrics_key(1)] =
        "{\"step\":100,\"attempt\":1,\"loss\":0.5}\n{\"step\":200,\"attempt\":1,\"loss\":0.25}\n";
    files_[metrics_key(2)] = "{\"step\":200,\"attempt\":2,\"loss\":0.125}\n{\"step\":3";
  }

  void write_folded() {
    begin(Policy{2, 1, 1000, BestRule{"loss", true}});
    const OpenRef one = append(first_open());
    const SaveId gone{50, 1, 0}, kept{100, 1, 0}, damaged{200, 1, 0}, condemned{60, 1, 0};
    save(gone, one, std::nullopt, 1.5);
    save(condemned, one, std::nullopt, 1.25);
    save(kept, one, std::nullopt, 0.5);
    save(damaged, one, std::nullopt, 0.25);
    append(Verified{kept, "run", "node-1"});
    append(Quarantine{damaged, "run", "data/x", "one", "another", "node-1", Nonce{0xaaaa}});
    for (const SaveId& id : {gone, condemned}) {
      append(Intent{id});
      std::erase_if(files_, [&](const auto& file) { return file.first.starts_with(save_prefix(id)); });
    }
    append(Deleted{{gone}});
    append(Tag{kept, "shown"});
    append(Tag{kept, "at-first"});
    append(Untag{kept, "at-first"});
    Open second = first_open();
    second.attempt = 2;
    second.resume = kept;
    second.life = Nonce{0xbbbb};
    const OpenRef two = append(second);
    append(Abort{{200, 2, 0}, "the disk was full"});
    append(Reserved{"NOTE", false, Json::object()});
    append(Pin{kept, Nonce{1}});
    for (std::uint64_t pin = 2; !history_.is_summary_due(); ++pin) {
      append(Pin{kept, Nonce{pin}});
      if (!history_.is_summary_due()) append(Unpin{kept, Nonce{pin}});
    }
    EncodedFold fold = encode_fold(history_).value();
    files_[fold.key] = std::move(fold.bytes);
    append(fold.summary);
    save({200, 2, 1}, two, second.resume, 0.125);
    append(Verified{{200, 2, 1}, "run", "node-1"});
    files_[std::string(kHintKey)] = encode_hint({uuid_, history_.next_slot() - 1, history_.head(), {}});
  }

  OpenRef append(Fact fact) {
    const std::uint64_t slot = history_.next_slot();
    const Record record{slot, Nonce{0x1000 + slot}, history_.head(),
                        1'800'000'000'000 + static_cast<std::int64_t>(slot), std::move(fact)};
    EncodedRecord encoded = encode_record(record).value();
    files_[slot_key(slot)] = std::move(encoded.bytes);
    UNBROKEN_CHECK(history_.apply(encoded.record, encoded.digest).ok());
    return {slot, encoded.digest};
  }

  void save(const SaveId& id, const OpenRef& open, const std::optional<SaveId>& resume, double loss) {
    const SampleSave sample = sample_save(id, 4096, open, resume);
    const Receipt& receipt = sample.parsed;
    files_[shard_key(id, 0, receipt.nonce)] = sample.shard;
    files_[index_key(id, 0, receipt.nonce)] = sample.index;
    files_[sums_key(id, 0, receipt.nonce)] = sample.sums;
    files_[receipt_key(id, 0)] = sample.receipt;
    files_[manifest_key(id, sample.manifest.sha256)] = sample.manifest.text;
    append(Commit{
        id, sample.manifest.sha256, sample.manifest.text.size(), sample.shard.size(), {{"loss", loss}}});
  }

  const std::string uuid_ = uuid_from(0x1111222233334444, 0x5555666677778888);
  RunFiles files_;
  History history_;
};

}  // namespace unbroken
