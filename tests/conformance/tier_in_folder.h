// For tests: the shared cases on a tier whose objects are files.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "tests/conformance/tier_conformance.h"
#include "tiers/directory/layout.h"

namespace steelyard::tiers {

/// `open` opens the tier, whose files lie in `path`.
inline void expect_all_cases(const std::string& path, std::function<Result<std::unique_ptr<Tier>>()> open) {
  conformance::TierUnderTest subject;
  subject.open = std::move(open);
  subject.add_foreign = [&](const AttemptName& attempt, const std::string& name) -> Status {
    std::ofstream file(path + "/" + directory::attempt_path(attempt) + "/" + name);
    file << "foreign";
    return file.good() ? Status() : Status(Code::kInternal, "cannot write " + name);
  };
  subject.block_removal = [&](const ObjectName& name) -> std::function<void()> {
    // A folder in the object's place cannot be unlinked.
    const std::string object = path + "/" + directory::object_path(name);
    ::unlink(object.c_str());
    ::mkdir(object.c_str(), 0755);
    return [object] {
      ::rmdir(object.c_str());
      std::ofstream(object) << "back";
    };
  };
  for (const auto& result : conformance::run_tier_conformance(real_runtime(), subject)) {
    EXPECT_EQ(result.outcome, conformance::CaseResult::Outcome::kPassed) << result.name << ": " << result.detail;
  }
}

}  // namespace steelyard::tiers
