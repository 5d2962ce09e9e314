#pragma once
// A small run as this version writes it, byte for byte the same every time: two attempts, a checkpoint that
// was verified, one that is condemned, one that is quarantined.
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "format/keys.h"
#include "format/run_object.h"
#include "format/sample.h"
#include "journal/hint.h"
#include "journal/record.h"
#include "journal/slots.h"

namespace unbroken {

/// Objects by key.
using RunFiles = std::map<std::string, std::string>;

class GoldenRun {
 public:
  static RunFiles files() {
    GoldenRun run;
    run.write();
    return std::move(run.files_);
  }

 private:
  void write() {
    const std::string uuid = uuid_from(0x1111222233334444, 0x5555666677778888);
    append(Genesis{uuid, 1, {}});
    files_[std::string(kRunKey)] = encode_run({uuid, 1, {}}).value();
    append(Policy{3, 2});
    Open first;
    first.attempt = 1;
    first.life = Nonce{0xaaaa};
    first.owner = {"job-7", "node-1", "boot-1", 1, 4242, 99, 5, 6};
    const OpenRef one = append(first);
    save({100, 1, 0}, one, std::nullopt, 0.5);
    save({200, 1, 0}, one, std::nullopt, 0.25);
    append(Verified{{100, 1, 0}, "run", "node-1"});
    append(Quarantine{{200, 1, 0}, "run", "data/x", "one", "another", "node-1", Nonce{0xaaaa}});
    Open second = first;
    second.attempt = 2;
    second.resume = SaveId{100, 1, 0};
    second.life = Nonce{0xbbbb};
    const std::uint64_t slot = slot_;
    const OpenRef two = append(second);
    append(Abort{{200, 2, 0}, "the disk was full"});
    save({200, 2, 1}, two, second.resume, 0.125);
    append(Verified{{200, 2, 1}, "run", "node-1"});
    files_[std::string(kHintKey)] = encode_hint({uuid, slot_ - 1, previous_, slot});
    files_[metrics_key(1)] =
        "{\"step\":100,\"attempt\":1,\"loss\":0.5}\n{\"step\":200,\"attempt\":1,\"loss\":0.25}\n";
    files_[metrics_key(2)] = "{\"step\":200,\"attempt\":2,\"loss\":0.125}\n{\"step\":3";
  }

  OpenRef append(Fact fact) {
    const Record record{slot_, Nonce{0x1000 + slot_}, previous_,
                        1'800'000'000'000 + static_cast<std::int64_t>(slot_), std::move(fact)};
    EncodedRecord encoded = encode_record(record).value();
    files_[slot_key(slot_)] = std::move(encoded.bytes);
    previous_ = encoded.digest;
    return {slot_++, previous_};
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

  RunFiles files_;
  std::uint64_t slot_ = 0;
  Sha256 previous_;
};

}  // namespace unbroken
