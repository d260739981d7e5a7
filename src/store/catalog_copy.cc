#include "store/catalog_copy.h"

#include <string>

namespace steelyard::store {

Result<oplog::Snapshot> read_snapshot_copy(tiers::Tier& cold, std::uint64_t sequence) {
  {
    SY_ASSIGN_OR_RETURN(const tiers::CatalogCopyHead head,
                        cold.read_catalog_copy_head(sequence, oplog::kSnapshotHeadBytesMax));
    SY_RETURN_IF_ERROR(oplog::check_snapshot_head(head.bytes, head.total_bytes));
  }
  SY_ASSIGN_OR_RETURN(const std::string bytes, cold.read_catalog_copy(sequence));
  return oplog::decode_snapshot(bytes);
}

}  // namespace steelyard::store
