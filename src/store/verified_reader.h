// VerifiedReader: bytes of payload objects in order, every block checked, the next piece always under way.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/stored_manifest.h"
#include "store/hot_tier.h"
#include "store/store.h"
#include "tiers/tier.h"

namespace steelyard::store {

/// What a read found to be wrong with an object.
struct BadObject {
  ProblemKind kind = ProblemKind::kMissingObject;
  std::uint32_t object = 0;
  std::optional<std::uint64_t> offset;  ///< first bad block
  std::string expected;
  std::string actual;
  /// Set where nothing is proved: the tier could not read the object now, and its bytes may be intact.
  Status read_error{};
};

/// `read_error` where it is set; else CORRUPT, naming the object's key and what was found and wanted.
Status to_status(const BadObject& bad, const formats::Identity& identity);

/// Objects whose replica in memory is bad, by number, with their bytes. The cold one may be whole.
using BadInMemory = std::map<std::uint32_t, std::uint64_t>;

/// Two pieces of memory that a reader alternates between. One reader at a time.
struct ReadBuffers {
  /// Each holds `piece_bytes`, a multiple of the block.
  static Result<ReadBuffers> allocate(std::uint64_t piece_bytes);
  std::uint64_t piece_bytes = 0;
  tiers::AlignedBuffer buffers[2];
};

/// The size of one of the two buffers when `workers` share the budget: whole blocks, at most 16 MiB.
std::uint64_t read_piece_bytes(std::uint64_t io_budget, unsigned workers);

/// Used by one thread. Reads `segments` one after the other; a segment is a byte range of one object, and is widened to
/// whole blocks for the check. The references must outlive the reader.
class VerifiedReader {
 public:
  /// `hot`, if given: objects that it has are read from there, and blocks that are bad in one replica from the other.
  VerifiedReader(tiers::Tier& tier, const tiers::AttemptName& attempt, std::span<const formats::ObjectEntry> objects,
                 std::vector<formats::ObjectRange> segments, ReadBuffers& buffers, const HotReplicas* hot = nullptr);
  ~VerifiedReader();

  struct Piece {
    std::size_t segment = 0;
    std::uint64_t offset = 0;  ///< in the object
    ByteView bytes;            ///< of the segment; valid until the next call
    bool last_of_segment = false;
    /// Set: the bytes are not to be used. The reader goes on with the next segment.
    std::optional<BadObject> bad;
  };
  /// False after the last piece.
  Result<bool> next(Piece& piece);
  /// What was met so far and read from the cold tier instead.
  const BadInMemory& bad_in_memory() const { return bad_in_memory_; }

 private:
  struct Window {
    std::size_t segment = 0;
    std::uint64_t begin = 0;  ///< widened, in the object
    std::uint64_t end = 0;
  };
  struct Slot {
    Window window;
    std::unique_ptr<tiers::PendingRead> read;
    Status start_error;
    bool used = false;
    bool from_hot = false;
  };

  std::optional<Window> take_window();
  void start(Slot& slot, ByteSpan memory);
  void start_from(Slot& slot, tiers::Tier& tier, const tiers::ObjectName& name, std::uint64_t begin, ByteSpan memory);
  Result<std::optional<BadObject>> check(Slot& slot, std::uint64_t begin, ByteView bytes) const;
  Result<std::optional<BadObject>> take_from_both(Slot& slot, ByteSpan memory, const BadObject& bad);
  void note_bad_in_memory(const BadObject& bad);

  tiers::Tier& tier_;
  const tiers::AttemptName attempt_;
  std::span<const formats::ObjectEntry> objects_;
  const std::vector<formats::ObjectRange> segments_;
  ReadBuffers& buffers_;
  const HotReplicas* hot_;
  BadInMemory bad_in_memory_;
  std::size_t next_segment_ = 0;
  std::uint64_t next_begin_ = 0;
  bool inside_segment_ = false;
  Slot slots_[2];
  int current_ = 0;
  bool started_ = false;
};

}  // namespace steelyard::store
