#include "transfer/import_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "commit/commit_save.h"
#include "engine/driver.h"
#include "engine/opening.h"
#include "format/keys.h"
#include "format/shard.h"
#include "journal/hint.h"
#include "restore/decide.h"
#include "transfer/shard_stream.h"

namespace unbroken {

namespace {

/// A fresh run has nothing to load.
class Nothing final : public Loader {
 public:
  Result<> check(const SavedState&) override { return Done{}; }
  Result<std::vector<TensorTarget>> targets(const SavedState&) override {
    return std::vector<TensorTarget>();
  }
};

class Import {
 public:
  Import(const Seams& seams, const ImportPlan& plan, const ForeignFiles& files, const ImportOptions& options,
         const Deadline& by)
      : seams_(seams), plan_(plan), files_(files), options_(options), by_(by) {}

  Result<ImportedRun> run() {
    std::vector<TensorSpec> specs;
    for (const ImportedTensor& tensor : plan_.tensors)
      specs.push_back({tensor.name, tensor.dtype, tensor.shape});
    UNBROKEN_TRY(shard_, plan_shard(specs));
    Nothing nothing;
    OpenOptions open;
    open.is_fresh_allowed = true;
    open.probe = options_.probe;
    UNBROKEN_TRY(opened_, open_run(seams_, open, nothing, by_));
    history_ = opened_.history;
    ticket_ = {.save = {options_.step, opened_.attempt, 0},
               .open = opened_.open,
               .resume = {},
               .life = opened_.life,
               .nonce = seams_.draw(),
               .append_nonce = seams_.draw(),
               .at_unix_ms = seams_.clock.wall_unix_ms()};
    UNBROKEN_TRY(SaveContent content, write_shard());
    UNBROKEN_TRY(auto committed,
                 unbroken::run(seams_, CommitSave(ticket_, std::move(content), history_), by_));
    history_ = std::move(committed.history);
    const Checkpoint* checkpoint = history_.find(ticket_.save);
    if (checkpoint == nullptr) return Error(Code::unavailable, "another process writes to the new run");
    const Commit commit = checkpoint->commit;
    UNBROKEN_DO(read_back(commit));
    say_closed();
    return ImportedRun{opened_.run, commit, plan_.tensors.size()};
  }

 private:
  /// Index and chunk sums of the shard, which is written.
  Result<SaveContent> write_shard() {
    SaveContent content;
    Index& index = content.index;
    index.data_offset = shard_.data_offset;
    index.file_bytes = shard_.file_bytes;
    index.aliases = plan_.aliases;
    index.tree = plan_.tree;
    UNBROKEN_TRY(ShardStream stream, ShardStream::open(seams_, shard_key(ticket_.save, 0, ticket_.nonce),
                                                       shard_.file_bytes, by_));
    UNBROKEN_DO(stream.add(as_bytes(shard_.header)));
    XxhStream digest;
    for (const std::uint32_t i : shard_.order) {
      const ImportedTensor& tensor = plan_.tensors[i];
      digest.reset();
      UNBROKEN_DO(feed_tensor(plan_, tensor, files_, [&](Bytes bytes) -> Result<> {
        digest.update(bytes);
        if (options_.tell) options_.tell(bytes.size());
        return stream.add(bytes);
      }));
      index.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, shard_.offsets[i], shard_.bytes[i],
                               digest.digest(), std::nullopt});
      content.state_bytes += shard_.bytes[i];
    }
    UNBROKEN_TRY(content.chunks, stream.finish(by_));
    content.is_shard_written = true;
    content.provenance = options_.provenance;
    return content;
  }

  Result<> read_back(const Commit& commit) {
    UNBROKEN_TRY(const ReadSave::Found found,
                 unbroken::run(seams_, ReadSave(commit, ReadSave::Depth::everything), by_));
    if (!found.damage.empty())
      return Error(Code::corrupt, fmt::format("what was written reads back otherwise: {}: {}",
                                              found.damage.front().object, found.damage.front().what));
    const Verified verified{commit.save, std::string(kRunTier), seams_.process.self().host};
    UNBROKEN_TRY(Appended appended, unbroken::run(seams_,
                                                  Append(history_, seams_.draw(), seams_.clock.wall_unix_ms(),
                                                         verified_decision(verified)),
                                                  by_));
    history_ = std::move(appended.history);
    return Done{};
  }

  /// A start must not take this process for an owner. Advisory.
  void say_closed() {
    const Hint hint{opened_.run, history_.next_slot() - 1, history_.head(), opened_.open.slot};
    static_cast<void>(seams_.store.advise(kHintKey, as_bytes(encode_hint(hint)), by_).ok());
  }

  const Seams seams_;
  const ImportPlan& plan_;
  const ForeignFiles& files_;
  const ImportOptions& options_;
  const Deadline by_;
  ShardPlan shard_;
  Opened opened_;
  SaveTicket ticket_;
  History history_;
};

}  // namespace

Result<ImportedRun> import_run(const Seams& seams, const ImportPlan& plan, const ForeignFiles& files,
                               const ImportOptions& options, const Deadline& by) {
  return Import(seams, plan, files, options, by).run();
}

}  // namespace unbroken
