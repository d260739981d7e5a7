// The shared cases on the memory tier.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/conformance/tier_conformance.h"
#include "tiers/directory/layout.h"
#include "tiers/memory/test_instance.h"

namespace steelyard::tiers {
namespace {

TEST(MemoryConformance, AllCases) {
  const TestTmpfs folder;
  if (!folder.made()) GTEST_SKIP() << "/dev/shm cannot be used here";
  const std::string path = instance_path(folder.path());
  conformance::TierUnderTest subject;
  subject.open = [&] { return open_memory(real_runtime(), memory_test_options(folder.path())); };
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

}  // namespace
}  // namespace steelyard::tiers
