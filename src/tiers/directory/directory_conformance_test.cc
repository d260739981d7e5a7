// The shared cases on the directory tier, on the disk and in memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/conformance/tier_conformance.h"
#include "tiers/directory/layout.h"
#include "tiers/directory/test_folder.h"
#include "tiers/open.h"

namespace steelyard::tiers {
namespace {

class DirectoryConformance : public testing::TestWithParam<const char*> {};

TEST_P(DirectoryConformance, AllCases) {
  const TestFolder folder(GetParam());
  if (!folder.made()) GTEST_SKIP() << GetParam() << " cannot be used here";
  const std::string path = folder.path() + "/tier";
  conformance::TierUnderTest subject;
  subject.open = [&] { return open_directory(real_runtime(), test_options(path)); };
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

INSTANTIATE_TEST_SUITE_P(Filesystems, DirectoryConformance, testing::Values("/tmp", "/dev/shm"));

}  // namespace
}  // namespace steelyard::tiers
