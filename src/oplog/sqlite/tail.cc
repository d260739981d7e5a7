#include "oplog/sqlite/tail.h"

#include <iterator>
#include <utility>

#include "oplog/sqlite/rows.h"

namespace steelyard::oplog::sqlite {
namespace {

constexpr std::size_t kReadPage = 256;

/// The tail's last append is still the one in the log.
Result<bool> stands(Connection& connection, const Head& head, std::uint64_t sequence, const std::string& request_id) {
  if (sequence == head.sequence) return head.request_id == request_id;
  SY_ASSIGN_OR_RETURN(const auto found, find_request_id(connection, sequence));
  return found == request_id;
}

}  // namespace

Result<std::uint64_t> Tail::follow(Connection& connection, const StateCodec& codec) {
  // It begins the transaction, and changes when another connection, of this process or not, has committed.
  SY_ASSIGN_OR_RETURN(const auto version, connection.find_integer("PRAGMA data_version"));
  if (version && version == version_) return sequence_;
  version_.reset();
  table_rows_.clear();
  SY_ASSIGN_OR_RETURN(const std::uint64_t sequence, catch_up(connection, codec));
  version_ = version;
  return sequence;
}

Result<std::uint64_t> Tail::catch_up(Connection& connection, const StateCodec& codec) {
  SY_ASSIGN_OR_RETURN(const Head head, find_head(connection));
  bool holds = head.folded == folded_ && sequence_ <= head.sequence;
  if (holds && sequence_ > folded_) {
    SY_ASSIGN_OR_RETURN(holds, stands(connection, head, sequence_, request_id_));
  }
  if (!holds) {
    clear();
    folded_ = sequence_ = head.folded;
  }
  if (sequence_ == head.sequence) return sequence_;
  auto sequence = catch_up_from(connection, codec, head.sequence);
  if (!sequence.ok()) clear();
  return sequence;
}

Result<std::uint64_t> Tail::catch_up_from(Connection& connection, const StateCodec& codec, std::uint64_t sequence) {
  while (sequence_ < sequence) {
    SY_ASSIGN_OR_RETURN(std::vector<Append> appends, read_appends(connection, sequence_, kReadPage));
    if (appends.empty()) {
      return Status(
          Code::kCorrupt,
          connection.path() + ": the log ends at " + std::to_string(sequence_) + ", wanted " + std::to_string(sequence),
          "restore the catalog from its newest snapshot copy (steelyard recover)");
    }
    for (const Append& append : appends) {
      std::vector<metadata::RowChange> changes;
      for (const Entry& entry : append.entries) {
        auto some = codec.changes_of(entry);
        if (!some.ok()) {
          return std::move(some).status().annotate("reading",
                                                   connection.path() + " log row " + std::to_string(append.sequence));
        }
        std::move(some->begin(), some->end(), std::back_inserter(changes));
      }
      put(append.sequence, append.request_id, std::move(changes));
      ++read_;
    }
  }
  return sequence_;
}

void Tail::add(std::uint64_t sequence, std::string_view request_id, std::vector<metadata::RowChange> changes) {
  put(sequence, request_id, std::move(changes));
}

void Tail::put(std::uint64_t sequence, std::string_view request_id, std::vector<metadata::RowChange> changes) {
  SY_CHECK(sequence == sequence_ + 1, "the tail grows in the order of the log");
  sequence_ = sequence;
  request_id_ = request_id;
  for (metadata::RowChange& change : changes) {
    // An upper bound: what replaces an earlier change counts again.
    bytes_ += change.key.size() + (change.value ? change.value->size() : 0);
    changes_.insert_or_assign(std::move(change.key), std::move(change.value));
  }
}

bool Tail::is_due() const { return sequence_ - folded_ >= kAppendsMax || read_ >= kReadMax || bytes_ >= kBytesMax; }

Status Tail::fold(Connection& connection) {
  if (sequence_ == folded_) return Status();
  for (const auto& [key, value] : changes_) SY_RETURN_IF_ERROR(put_row(connection, key, value));
  SY_RETURN_IF_ERROR(set_meta(connection, "folded", sequence_));
  const std::uint64_t folded = sequence_;
  clear();
  folded_ = sequence_ = folded;
  return Status();
}

void Tail::clear() {
  version_.reset();
  folded_ = sequence_ = read_ = 0;
  bytes_ = 0;
  request_id_.clear();
  changes_.clear();
  table_rows_.clear();
}

}  // namespace steelyard::oplog::sqlite
