#pragma once
// A foreign checkpoint, read but not copied: safetensors, torch.save, torch.distributed.checkpoint. Pickles
// are read by a machine that executes nothing, in a process that can do nothing but compute.
#include <memory>
#include <string>
#include <vector>

#include "exchange/import_plan.h"
#include "exchange/source.h"
#include "os/user/user_path.h"
#include "transfer/tensor_feed.h"

namespace unbroken {

class UserSource final : public ByteSource {
 public:
  explicit UserSource(UserFileReader file) : file_(std::move(file)) {}
  std::uint64_t bytes() const override { return file_.bytes(); }
  Result<> read(std::uint64_t offset, MutableBytes into) const override { return file_.read(offset, into); }
  int number() const { return file_.number(); }

 private:
  UserFileReader file_;
};

/// What was read of a foreign checkpoint, and the files it lies in.
struct ForeignState {
  ImportPlan plan;
  std::vector<std::unique_ptr<UserSource>> files;
  ForeignFiles sources() const;
  Result<> check() const;  ///< check_plan()
};

/// A file, or a directory with a .metadata, without the entries that `without` names. Its plan is not to be
/// used before check() has accepted it. Errors:  not_found; corrupt (damaged); bad_argument (no plain file);
///          unsupported; unavailable.
/// Threads: call it before any thread is started (os/sandbox.h).
Result<ForeignState> read_foreign_state(const std::string& path, LeftOut without = {});

}  // namespace unbroken
