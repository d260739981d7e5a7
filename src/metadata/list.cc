// Pages of revisions, served by the order indexes.
#include <algorithm>
#include <set>
#include <utility>

#include "base/limits.h"
#include "hash/framed.h"
#include "metadata/codec.h"
#include "metadata/keys.h"
#include "metadata/rules.h"
#include "metadata/validate.h"

namespace steelyard::metadata {
namespace {

constexpr std::size_t kBindingBytes = 16;
/// Rows that are read at once; bounds the memory of a page, not its length.
constexpr std::size_t kBatchRows = 256;

struct IndexRow {
  std::string key;
  std::string revision_key;
};

bool is_label_subset(const Labels& wanted, const Labels& labels) {
  return std::includes(labels.begin(), labels.end(), wanted.begin(), wanted.end());
}

/// A query, ready to run: where its rows lie and which of them match.
class Query {
 public:
  static Result<Query> make(const ListQuery& query) {
    Identity probe{{query.tenant_id, query.namespace_id, query.resource_id.value_or("r"), "r"}, 1};
    SY_RETURN_IF_ERROR(formats::validate(probe.lineage));
    if (query.limit < 1 || query.limit > limits::kListLimitMax) {
      return Status(Code::kInvalidArgument, "limit is " + std::to_string(query.limit) + ", wanted 1 to " +
                                                std::to_string(limits::kListLimitMax));
    }
    Query out;
    out.query_ = query;
    std::sort(out.query_.labels.begin(), out.query_.labels.end());
    SY_RETURN_IF_ERROR(validate_labels(out.query_.labels));
    if (!query.states.empty()) {
      out.states_.insert(query.states.begin(), query.states.end());
    } else if (query.all) {
      out.states_ = {Availability::kImporting, Availability::kReady, Availability::kDegraded, Availability::kDeleting,
                     Availability::kDeleted};
    } else {
      out.states_ = {Availability::kReady, Availability::kDegraded};
    }
    out.prefix_ = query.resource_id ? keys::resource_prefix(keys::kResourceOrder, query.tenant_id, query.namespace_id,
                                                            *query.resource_id)
                                    : keys::namespace_prefix(keys::kOrder, query.tenant_id, query.namespace_id);
    return out;
  }

  const std::string& prefix() const { return prefix_; }
  /// End of the rows that can match: the uncommitted are never READY or DEGRADED, nor the newest by commit.
  std::string end() const {
    const bool only_published = std::ranges::all_of(states_, is_published);
    if (only_published || query_.newest) return prefix_ + static_cast<char>(keys::OrderClass::kUncommitted);
    return keys::after_prefix(prefix_);
  }

  bool state_matches(Availability state) const { return states_.contains(state); }
  bool labels_match(const RevisionRecord& record) const { return is_label_subset(query_.labels, record.labels); }
  bool newest() const { return query_.newest; }

  /// Ties a position to everything in the query but its limit.
  std::string binding(std::string_view position) const {
    hash::FramedSha256 sha;
    sha.add("list 1").add(query_.tenant_id).add(query_.namespace_id);
    sha.add(query_.resource_id ? "resource" : "").add(query_.resource_id.value_or(""));
    sha.add(query_.newest ? "newest" : "");
    sha.add(std::to_string(states_.size()));
    for (const Availability state : states_) sha.add(name_of(state));
    for (const auto& [key, value] : query_.labels) sha.add(key).add(value);
    return std::string(as_text(sha.add(position).finish().bytes).substr(0, kBindingBytes));
  }

 private:
  ListQuery query_;
  std::set<Availability> states_;
  std::string prefix_;
};

std::string encode_token(const Query& query, std::string_view last_key) {
  const std::string_view position = last_key.substr(query.prefix().size());
  return to_hex(as_bytes(query.binding(position))) + to_hex(as_bytes(position));
}

/// The key of the last row of the page before; empty for the first page.
Result<std::string> decode_token(const Query& query, std::string_view token) {
  if (token.empty()) return std::string();
  std::string raw(token.size() / 2, '\0');
  const bool hex =
      token.size() % 2 == 0 && from_hex(token, ByteSpan(reinterpret_cast<std::byte*>(raw.data()), raw.size()));
  if (hex && raw.size() > kBindingBytes) {
    const std::string_view position = std::string_view(raw).substr(kBindingBytes);
    if (query.binding(position) == std::string_view(raw).substr(0, kBindingBytes)) {
      return std::string(query.prefix()).append(position);
    }
  }
  return Status(Code::kInvalidArgument, "the page token is damaged or of another query",
                "repeat the query that gave it, or begin without a token");
}

/// Index rows of matching states with after < key < end, at most `most`; `from` is moved behind the last row seen.
Result<std::vector<IndexRow>> next_rows(const StateView& view, const Query& query, std::string& from,
                                        const std::string& end, std::size_t most, bool& exhausted) {
  std::vector<IndexRow> rows;
  Status failed;
  exhausted = true;
  SY_RETURN_IF_ERROR(view.scan(from, end, false, [&](std::string_view key, std::string_view value) {
    const auto parsed = keys::parse_order_value(value);
    if (!parsed) {
      failed = Status(Code::kCorrupt, "a row of the order index is malformed");
      return false;
    }
    if (!query.state_matches(parsed->availability)) return true;
    rows.push_back({std::string(key), std::string(parsed->revision_key)});
    exhausted = rows.size() < most;
    return exhausted;
  }));
  SY_RETURN_IF_ERROR(failed);
  if (!rows.empty()) from = rows.back().key + '\0';
  return rows;
}

Result<RevisionRecord> load_record(const StateView& view, std::string_view revision_key) {
  SY_ASSIGN_OR_RETURN(const std::optional<std::string> row, view.get(revision_key));
  if (!row) return Status(Code::kCorrupt, "the order index names a revision that is not there");
  return decode_record(*row);
}

/// No matching revision of the same resource was committed later.
Result<bool> is_newest(const StateView& view, const Query& query, const RevisionRecord& record) {
  const Lineage& lineage = record.identity.lineage;
  const std::string prefix =
      keys::resource_prefix(keys::kResourceOrder, lineage.tenant_id, lineage.namespace_id, lineage.resource_id);
  const std::string after =
      keys::resource_order(record.identity, keys::OrderClass::kCommitted, record.committed_seq) + '\0';
  const std::string end = prefix + static_cast<char>(keys::OrderClass::kUncommitted);
  std::string from = after;
  // The next row decides, unless its labels do not match.
  std::size_t batch = 1;
  for (bool exhausted = false; !exhausted; batch = kBatchRows) {
    SY_ASSIGN_OR_RETURN(const std::vector<IndexRow> rows, next_rows(view, query, from, end, batch, exhausted));
    for (const IndexRow& row : rows) {
      SY_ASSIGN_OR_RETURN(const RevisionRecord later, load_record(view, row.revision_key));
      if (query.labels_match(later)) return false;
    }
  }
  return true;
}

}  // namespace

Result<ListPage> list_revisions(const StateView& view, const ListQuery& list_query) {
  SY_ASSIGN_OR_RETURN(const Query query, Query::make(list_query));
  SY_ASSIGN_OR_RETURN(const std::string last, decode_token(query, list_query.page_token));
  std::string from = last.empty() ? query.prefix() : last + '\0';
  const std::string end = query.end();
  ListPage page;
  page.records.reserve(std::min(list_query.limit, kBatchRows));
  std::string last_key;
  for (bool exhausted = false; !exhausted;) {
    const std::size_t wanted = list_query.limit + 1 - page.records.size();
    SY_ASSIGN_OR_RETURN(const std::vector<IndexRow> rows,
                        next_rows(view, query, from, end, std::min(wanted, kBatchRows), exhausted));
    for (const IndexRow& row : rows) {
      SY_ASSIGN_OR_RETURN(RevisionRecord record, load_record(view, row.revision_key));
      if (!query.labels_match(record)) continue;
      if (query.newest()) {
        SY_ASSIGN_OR_RETURN(const bool newest, is_newest(view, query, record));
        if (!newest) continue;
      }
      if (page.records.size() == list_query.limit) {
        // One more than the page holds: there is a next page.
        page.next_page_token = encode_token(query, last_key);
        return page;
      }
      last_key = row.key;
      page.records.push_back(std::move(record));
    }
  }
  return page;
}

}  // namespace steelyard::metadata
