#include "sim/workload/lying_log.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "metadata/codec.h"
#include "metadata/keys.h"
#include "oplog/forwarding.h"

namespace steelyard::sim {
namespace {

constexpr std::uint64_t kOrdinals = 1'000'000;
constexpr std::int64_t kInstants = 1'000'000'000'000;

/// The row as the log shows it.
std::string shown(Canary canary, std::string_view key, std::string_view row) {
  const bool record = key.front() == metadata::keys::kRevision && canary != Canary::kUseLies;
  const bool access = key.front() == metadata::keys::kAccess && canary == Canary::kUseLies;
  if (record) {
    auto decoded = metadata::decode_record(row);
    SY_CHECK(decoded.ok(), "the log has rows that can be read");
    if (canary == Canary::kRowLies) decoded->updated_at_ms += 1;
    if (canary == Canary::kNameLies) decoded->hot_instance.assign(decoded->hot_instance.size(), '0');
    if (canary == Canary::kPolicyLies && decoded->policy.mode == metadata::PolicyMode::kManual) {
      decoded->policy = {metadata::Residency::kCold, std::nullopt, metadata::PolicyMode::kPinned};
    }
    return metadata::encode_record(*decoded);
  }
  if (access) {
    auto decoded = metadata::decode_access(row);
    SY_CHECK(decoded.ok(), "the log has rows that can be read");
    decoded->epoch_ordinal = kOrdinals - decoded->epoch_ordinal;
    decoded->mono_ms = kInstants - decoded->mono_ms;
    return metadata::encode_access(*decoded);
  }
  return std::string(row);
}

class LyingView final : public oplog::StateView {
 public:
  LyingView(const StateView& inner, Canary canary) : inner_(inner), canary_(canary) {}
  std::uint64_t sequence() const override { return inner_.sequence(); }
  Result<std::optional<std::string>> get(std::string_view key) const override {
    SY_ASSIGN_OR_RETURN(std::optional<std::string> row, inner_.get(key));
    if (row) row = shown(canary_, key, *row);
    return row;
  }
  Status scan(std::string_view from, std::string_view to, bool descending, const Visitor& visit) const override {
    return inner_.scan(from, to, descending, [&](std::string_view key, std::string_view row) {
      return visit(key, shown(canary_, key, row));
    });
  }

 private:
  const StateView& inner_;
  Canary canary_;
};

class LyingLog final : public oplog::ForwardingLog {
 public:
  LyingLog(std::unique_ptr<oplog::OpLog> inner, Canary canary)
      : ForwardingLog(*inner), owned_(std::move(inner)), canary_(canary) {}
  Status view(const std::function<Status(const oplog::StateView& view)>& read) override {
    return inner_.view([&](const oplog::StateView& view) { return read(LyingView(view, canary_)); });
  }
  Result<std::uint64_t> write(const Prepare& prepare) override {
    // The others lie to readers alone, so that nothing of it is appended.
    if (canary_ != Canary::kNameLies) return inner_.write(prepare);
    return inner_.write(
        [&](const oplog::StateView& view, const oplog::Now& now) { return prepare(LyingView(view, canary_), now); });
  }

 private:
  std::unique_ptr<oplog::OpLog> owned_;
  Canary canary_;
};

}  // namespace

std::unique_ptr<oplog::OpLog> make_lying_log(std::unique_ptr<oplog::OpLog> inner, Canary canary) {
  const bool lies = canary == Canary::kPolicyLies || canary == Canary::kUseLies || canary == Canary::kRowLies ||
                    canary == Canary::kNameLies;
  if (!lies) return inner;
  return std::make_unique<LyingLog>(std::move(inner), canary);
}

}  // namespace steelyard::sim
