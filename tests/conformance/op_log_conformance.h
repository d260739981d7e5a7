// What every op log must do. A backend's test is a factory and its capabilities; the suite is shared:
//
//   INSTANTIATE_TEST_SUITE_P(Memory, OpLogConformance, testing::Values(OpLogFactory{...}), factory_name);
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "oplog/codec.h"
#include "oplog/op_log.h"

namespace steelyard::oplog::testing {

/// A codec without weights: an entry is "put KEY VALUE", "del KEY" or "step N" (the row "step" must go up by one, which
/// check_entries verifies). Anything else is an unknown type.
const StateCodec& plain_codec();
Entry put(const std::string& key, const std::string& value);
Entry del(const std::string& key);
Entry step(std::uint64_t number);

/// One log and whatever it stands on.
class LogFixture {
 public:
  virtual ~LogFixture() = default;
  virtual OpLog& log() = 0;
  /// Closes the log and opens it again; only for durable ones.
  virtual void reopen() = 0;
};

struct OpLogFactory {
  std::string name;
  /// A new, empty log over plain_codec().
  std::function<std::unique_ptr<LogFixture>()> make;
  Capabilities wanted;
};

inline std::string factory_name(const ::testing::TestParamInfo<OpLogFactory>& info) { return info.param.name; }

class OpLogConformance : public ::testing::TestWithParam<OpLogFactory> {
 protected:
  void SetUp() override { fixture_ = GetParam().make(); }
  OpLog& log() { return fixture_->log(); }

  /// Appends what is given and returns the sequence.
  std::uint64_t append(std::vector<Entry> entries);
  std::string get(const std::string& key);
  std::string exported();

  std::unique_ptr<LogFixture> fixture_;
};

/// Appends "step n+1" with a row that only it writes; the number of the step.
Result<std::uint64_t> write_step(OpLog& log, const std::string& writer);

}  // namespace steelyard::oplog::testing
