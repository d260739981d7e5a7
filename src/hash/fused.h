// One pass over bytes for everything that an import and a verification compute of them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "hash/sha256.h"

namespace steelyard::hash {

/// Advances the SHA-256 of a file and that of one of its objects over `bytes`, and appends the XXH3-64 sums of the
/// object's blocks of 1 MiB (limits::kBlockBytes). Every byte is brought into the CPU's cache once.
///
/// `bytes` begin on a block boundary of the object, and end on one or with the object: the last block may be short, and
/// then nothing may follow. Same result as file.update, object.update and append_block_sums.
void hash_pass(Sha256& file, Sha256& object, ByteView bytes, std::vector<std::uint64_t>& block_sums);

/// The same without a file: for bytes whose file digest is known or not wanted.
void hash_pass(Sha256& object, ByteView bytes, std::vector<std::uint64_t>& block_sums);

}  // namespace steelyard::hash
