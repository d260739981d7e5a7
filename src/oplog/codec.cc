#include "oplog/codec.h"

namespace steelyard::oplog {
namespace {

class MetadataCodec final : public StateCodec {
 public:
  Result<std::vector<metadata::RowChange>> changes_of(const metadata::Entry& entry) const override {
    return metadata::changes_of(entry);
  }
  Result<std::vector<metadata::RowChange>> check_entries(const metadata::StateView& before, std::uint64_t sequence,
                                                         const std::vector<metadata::Entry>& entries) const override {
    return metadata::check_entries(before, sequence, entries);
  }
  Result<std::string> export_canonical(const metadata::StateView& view) const override {
    return metadata::export_canonical(view);
  }
  std::string section_name() const override { return std::string(metadata::kSnapshotSection); }
  Result<std::string> save_section(const metadata::StateView& view) const override {
    return metadata::save_section(view);
  }
  Result<std::shared_ptr<const metadata::SortedRows>> load_section(std::string_view section,
                                                                   std::uint64_t sequence) const override {
    return metadata::load_section(section, sequence);
  }
};

}  // namespace

const StateCodec& metadata_codec() {
  static const MetadataCodec codec;
  return codec;
}

}  // namespace steelyard::oplog
