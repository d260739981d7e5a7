// StateCodec: what a log asks of the rules' room about entries and state. Production has one (metadata_codec); tests of
// the logs use a trivial one, so that they say something about logs and not about weights.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "metadata/state.h"

namespace steelyard::oplog {

/// Pure and stateless; may be used from any thread. See metadata/state.h for the contracts.
class StateCodec {
 public:
  virtual ~StateCodec() = default;
  virtual Result<std::vector<metadata::RowChange>> changes_of(const metadata::Entry& entry) const = 0;
  virtual Result<std::vector<metadata::RowChange>> check_entries(const metadata::StateView& before,
                                                                 std::uint64_t sequence,
                                                                 const std::vector<metadata::Entry>& entries) const = 0;
  virtual Result<std::string> export_canonical(const metadata::StateView& view) const = 0;
  /// The name of the snapshot section that holds the state.
  virtual std::string section_name() const = 0;
  virtual Result<std::string> save_section(const metadata::StateView& view) const = 0;
  virtual Result<std::shared_ptr<const metadata::SortedRows>> load_section(std::string_view section,
                                                                           std::uint64_t sequence) const = 0;
};

/// The codec of weight metadata.
const StateCodec& metadata_codec();

}  // namespace steelyard::oplog
