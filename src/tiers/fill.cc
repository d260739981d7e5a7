#include "tiers/fill.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/checked.h"
#include "base/limits.h"
#include "hash/xxh3.h"
#include "tiers/directory/layout.h"

namespace steelyard::tiers {
namespace {

using directory::describe;
using limits::kBlockBytes;

constexpr std::uint64_t kPiecesMax = 8;

/// A part of the memory, and what is being read into it.
struct Piece {
  ByteSpan memory;
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
  std::unique_ptr<PendingRead> read;
};

Status check_blocks(const FillRequest& request, const Piece& piece) {
  std::vector<std::uint64_t> sums;
  hash::append_block_sums(piece.memory.first(piece.bytes), kBlockBytes, sums);
  const std::uint64_t first = piece.offset / kBlockBytes;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::uint64_t wanted = request.blocks[static_cast<std::size_t>(first) + i];
    if (sums[i] == wanted) continue;
    return {Code::kCorrupt, describe(request.from) + ", block " + std::to_string(first + i) + " (at offset " +
                                std::to_string((first + i) * kBlockBytes) + "): XXH3-64 " + hash::xxh3_hex(sums[i]) +
                                " found, " + hash::xxh3_hex(wanted) + " wanted"};
  }
  return {};
}

}  // namespace

Result<PutOutcome> fill(Tier& source, Tier& target, const FillRequest& request, ByteSpan memory,
                        const std::function<Status(std::uint64_t done)>& progress) {
  SY_CHECK(memory.size() >= kFillBytesMin, "a fill needs memory for two blocks");
  if (request.blocks.size() != div_ceil(request.bytes, kBlockBytes)) {
    return Status(Code::kInvalidArgument, describe(request.from) + " of " + std::to_string(request.bytes) +
                                              " bytes with " + std::to_string(request.blocks.size()) + " block sums");
  }
  SY_ASSIGN_OR_RETURN(const bool linked, target.link(request.to, request.sha256, request.bytes));
  if (linked) {
    if (progress) SY_RETURN_IF_ERROR(progress(request.bytes));
    return PutOutcome::kLinked;
  }

  const std::uint64_t blocks = memory.size() / kBlockBytes;
  const auto piece_bytes = static_cast<std::size_t>(div_ceil(blocks, kPiecesMax) * kBlockBytes);
  std::vector<Piece> pieces(memory.size() / piece_bytes);
  std::uint64_t next = 0;
  const auto start = [&](Piece& piece) -> Status {
    piece.read.reset();
    piece.bytes = 0;
    if (next == request.bytes) return {};
    piece.offset = next;
    piece.bytes = static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, request.bytes - next));
    next += piece.bytes;
    SY_ASSIGN_OR_RETURN(piece.read, source.start_read(request.from, {{piece.offset, piece.memory.first(piece.bytes)}}));
    return {};
  };
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    pieces[i].memory = memory.subspan(i * piece_bytes, piece_bytes);
    SY_RETURN_IF_ERROR(start(pieces[i]));
  }
  // Setting the object's memory aside takes as long as reading much of it: the device works meanwhile.
  SY_ASSIGN_OR_RETURN(auto stream, target.open_put(request.to, request.bytes, request.sha256));
  for (std::size_t i = 0; pieces[i].read; i = (i + 1) % pieces.size()) {
    Piece& piece = pieces[i];
    SY_RETURN_IF_ERROR(piece.read->finish());
    SY_RETURN_IF_ERROR(check_blocks(request, piece));
    SY_RETURN_IF_ERROR(stream->append(piece.memory.first(piece.bytes)));
    const std::uint64_t done = piece.offset + piece.bytes;
    SY_RETURN_IF_ERROR(start(piece));
    if (progress) SY_RETURN_IF_ERROR(progress(done));
  }
  return stream->finish();
}

}  // namespace steelyard::tiers
