#pragma once
// A disk shared by all simulated processes: what they see now (the page and directory caches of a running
// system) and what would be there after power came back. Every call takes effect at once and in full;
// scheduling, faults and traces are SimFs's.
//
// Content: each 4 KiB block written since the file's last sync may be kept, dropped or torn at 512 B, and the
// new length may be there without the data. Names: each name changed since its directory's last sync may
// hold any value it had since then; syncing a file does not sync its name.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "simdisk/disk_image.h"
#include "simdisk/sim_random.h"
#include "world/clock.h"
#include "world/fs.h"

namespace unbroken {

/// What power loss may do.
enum class LossProfile : std::uint8_t {
  any_subset,  ///< any subset of unsynced names and blocks: the weakest file system
  ordered,     ///< as ext4: names keep an order (a prefix survives), any sync makes all earlier names durable
};

/// A file or a directory (an inode).
struct SimNode {
  struct Change {
    std::uint64_t sequence;
    std::shared_ptr<SimNode> value;
  };
  struct Name {
    std::shared_ptr<SimNode> now, durable;  ///< null: no such name
    std::vector<Change> pending;            ///< since the directory's last sync
  };
  struct Recent {
    Instant at;
    std::string name;
    bool was_there;
  };
  using Names = std::map<std::string, Name, std::less<>>;

  std::uint64_t number = 0;
  std::uint32_t mode = 0600, owner = 1000;
  std::uint32_t links = 0, opens = 0;
  bool is_directory = false;
  bool is_stale = false;  ///< lost in a server restart: every use is ESTALE

  std::string now;                          ///< content as everybody sees it
  bool is_clean = true;                     ///< `now` is durable and `durable` is not used
  std::string durable;                      ///< content after power loss, at the least
  std::vector<std::uint32_t> dirty_blocks;  ///< sorted
  bool is_size_dirty = false;
  bool has_lost = false;                      ///< a sync failed: `now` and the disk differ for good
  std::shared_ptr<const std::string> frozen;  ///< `now`, shared with images, while it stays the same

  Names names;
  std::vector<Names::iterator> dirty_names;
  std::vector<Recent> recent;
};
using SimNodeRef = std::shared_ptr<SimNode>;

/// Every distinct outcome of power loss; not `is_complete`: more than the cap, then extremes and samples.
struct LossStates {
  std::vector<DiskImage> images;
  bool is_complete = false;
};

class SimDisk {
 public:
  static constexpr std::size_t kBlockBytes = 4096, kSectorBytes = 512;

  explicit SimDisk(const Clock& clock);

  LossProfile profile = LossProfile::any_subset;
  std::uint64_t capacity_bytes = std::uint64_t{1} << 40;
  bool is_read_only = false;
  Duration stale_for = std::chrono::seconds(1);  ///< how long a list may be wrong about a name
  bool survives_node = true;

  // As the methods of Fs. Errors name the system's: "EEXIST".
  Result<SimNodeRef> create_excl(std::string_view path);
  Result<SimNodeRef> open(std::string_view path) const;
  Result<> write(SimNode& file, std::uint64_t offset, Bytes data);
  Result<std::uint64_t> read(const SimNode& file, std::uint64_t offset, MutableBytes into) const;
  void sync(SimNode& file);
  /// The write-back failed: the pages count as clean, yet their bytes never reach the disk.
  void fail_sync(SimNode& file);
  void close(SimNode& file);
  Result<Created> link(std::string_view from, std::string_view to);
  Result<> rename(std::string_view from, std::string_view to);
  Result<> unlink(std::string_view path);
  Result<Created> make_dir(std::string_view path);
  Result<> remove_dir(std::string_view path);
  Result<> sync_dir(std::string_view path);
  /// With `stale`, any subset of the changes of the last `stale_for` is not seen.
  Result<std::vector<std::string>> list(std::string_view path, SimRandom* stale = nullptr) const;
  Result<FileInfo> info(std::string_view path) const;
  Result<> append(std::string_view path, Bytes data);
  std::uint64_t free_bytes() const { return capacity_bytes - std::min(capacity_bytes, used_bytes_); }

  std::uint64_t used_bytes() const { return used_bytes_; }

  // Power and servers.
  /// Power goes and comes back: the disk is one of the images it may be.
  void power_loss(SimRandom& random);
  /// At most `cap` images, each with another hash.
  LossStates power_loss_states(std::size_t cap, SimRandom& random) const;
  /// What is on it if power goes and nothing that was not synced survives.
  DiskImage durable_image() const;
  /// What everybody sees now.
  DiskImage image() const;
  /// The disk holds exactly this, all of it durable.
  void restore(const DiskImage& image);
  /// The storage server restarts: unsynced names may be gone, the clients and their pages live on.
  void server_restart(SimRandom& random);

  // For tests and checkers.
  std::optional<std::string> peek(std::string_view path) const;
  bool exists(std::string_view path) const { return static_cast<bool>(find(path)); }
  /// True where the file, its bytes, its name and every folder above would survive any power loss.
  bool is_durable(std::string_view path) const;
  /// Puts a durable file there (over what is there), with its folders.
  void plant(std::string_view path, std::string bytes);
  /// Damage at rest; false where there is no such byte.
  bool flip_bit(std::string_view path, std::uint64_t offset, unsigned bit = 0);
  bool cut(std::string_view path, std::uint64_t bytes);
  /// Removed behind everybody's back, durably; a folder with all it holds.
  bool destroy(std::string_view path);
  void set_mode(std::string_view path, std::uint32_t mode);
  /// An object as a bucket stores it: bytes durable at once, folders too, the name only after sync_dir.
  Result<Created> put(std::string_view path, std::string bytes, bool replaces);

 private:
  class Choices;
  class DrawnChoices;
  class ListedChoices;
  struct Place {
    SimNode* directory;
    std::string_view name;
  };
  SimNodeRef find(std::string_view path) const;
  Result<Place> place(std::string_view path, std::string_view call) const;
  static SimNodeRef child(const SimNode& directory, std::string_view name);
  SimNodeRef make_node(bool is_directory);
  void set_name(SimNode& directory, std::string_view name, SimNodeRef value);
  void set_durably(SimNode& directory, std::string_view name, SimNodeRef value);
  void forget(SimNode& file);
  Result<> check_writable(std::string_view call, std::string_view path) const;
  static void start_change(SimNode& file);
  static void mark_dirty(SimNode& file, std::uint64_t offset, std::uint64_t bytes);

  DiskImage image_after(Choices& choices) const;
  void collect(const SimNode& directory, const std::string& path, Choices& choices, std::uint64_t cut,
               std::map<const SimNode*, std::size_t>& seen, DiskImage& image) const;
  std::vector<SimNodeRef> candidates(const SimNode::Name& name) const;
  std::shared_ptr<const std::string> content_after(const SimNode& file, Choices& choices) const;
  std::string ordered_content_after(const SimNode& file, Choices& choices) const;
  void recount();

  const Clock& clock_;
  SimNodeRef root_;
  std::uint64_t next_number_ = 2;
  std::uint64_t sequence_ = 1;
  std::uint64_t committed_ = 0;  ///< ordered: names changed before this are durable
  std::uint64_t used_bytes_ = 0;
};

}  // namespace unbroken
