#pragma once
// What a foreign file holds, and where: the state tree, and for each tensor the places of its bytes. It is
// made by who reads the file (in a sandbox, where that takes a pickle) and checked again by who copies the
// bytes: nothing in it is taken on trust.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/index.h"
#include "state/tree.h"

namespace unbroken {

/// A box of a tensor, as it lies in one file.
struct ImportedPiece {
  std::uint32_t file = 0;              ///< of those that were opened; kInline: in ImportPlan::inline_bytes
  std::uint64_t offset = 0;            ///< of its first element, in bytes
  std::vector<std::uint64_t> strides;  ///< in elements
  Box box;
  static constexpr std::uint32_t kInline = UINT32_MAX;
};

struct ImportedTensor {
  std::string name;
  DType dtype = DType::u8;
  Shape shape;
  std::vector<ImportedPiece> pieces;
};

/// Bytes that their own file has a checksum for.
struct ChecksummedRange {
  std::string what;
  std::uint32_t file = 0;
  std::uint64_t offset = 0, bytes = 0;
  std::uint32_t crc32 = 0;
};

/// What a reader says of one value of a foreign file.
struct ImportRemark {
  std::string name;   ///< of the value
  std::string entry;  ///< of the nearest entry of a dict that holds it, or is it; empty where none does
  std::string what;   ///< "argparse.Namespace"
};

/// Globs over the names of a dict's entries: these are not taken, nor what is below them.
using LeftOut = std::span<const std::string>;

struct ImportPlan {
  Node tree;
  std::vector<ImportedTensor> tensors;
  std::vector<Alias> aliases;
  std::vector<ChecksummedRange> checks;
  std::string inline_bytes;
  bool has_unchecked_bytes = false;   ///< some of the file has no checksum of its own
  std::vector<ImportRemark> refused;  ///< what no run can hold; where there is any, the tree is not whole
  std::vector<ImportRemark> changed;  ///< what comes back otherwise than it was
  std::vector<std::string> left_out;  ///< names that LeftOut named
};

/// For the way out of the sandbox. Errors: bad_argument (over a cap).
Result<std::string> encode_plan(const ImportPlan& plan);
/// Errors: corrupt.
Result<ImportPlan> decode_plan(std::string_view bytes);
/// Everything that a copy relies on: names, sizes, boxes that tile their tensor, strides that stay within the
/// files (of `file_bytes`); together not much more than the files; nothing refused.
/// Errors: corrupt.
Result<> check_plan(const ImportPlan& plan, std::span<const std::uint64_t> file_bytes);

/// Is an entry of this name among what is not to be taken?
bool is_left_out(LeftOut without, std::string_view name);

}  // namespace unbroken
