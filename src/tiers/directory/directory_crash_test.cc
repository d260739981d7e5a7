// A process that ends at any step of the protocol leaves nothing half visible, and the next one goes on.
#include <gtest/gtest.h>

#include <filesystem>

#include "hash/sha256.h"
#include "tiers/directory/layout.h"
#include "tiers/directory/test_crash.h"
#include "tiers/open.h"

namespace steelyard::tiers {
namespace {

const AttemptName kFirst{std::string(64, 'a'), 1};
const AttemptName kSecond{std::string(64, 'a'), 2};

std::vector<std::byte> bytes_of(std::uint32_t index) {
  // Small, large, and large with a tail that fills no page.
  const std::size_t sizes[] = {3000, 2 * 1024 * 1024, 2 * 1024 * 1024 + 99};
  return std::vector<std::byte>(sizes[index % 3], static_cast<std::byte>(index + 1));
}

Status put_all(Tier& tier, const AttemptName& attempt) {
  for (std::uint32_t index = 0; index < 3; ++index) {
    const auto bytes = bytes_of(index);
    SY_ASSIGN_OR_RETURN(auto put, tier.start_put({attempt, ObjectKind::kPayload, index}, bytes, hash::sha256(bytes)));
    SY_RETURN_IF_ERROR(put->finish().status());
  }
  SY_RETURN_IF_ERROR(tier.flush(attempt));
  return tier.put_committed(attempt, "record");
}

class DirectoryCrash : public testing::TestWithParam<const char*> {};

TEST_P(DirectoryCrash, LeavesWholeObjectsAndTemporariesOnly) {
  int crashes = 0;
  for (int pass = 1; pass <= 4; ++pass) {
    const TestFolder folder;
    const std::string path = folder.path() + "/tier";
    // The first attempt gives the index something that the second may link.
    {
      auto tier = open_directory(real_runtime(), test_options(path));
      ASSERT_TRUE(tier.ok());
      const auto shared = bytes_of(1);
      auto put = (*tier)->start_put({kSecond, ObjectKind::kPayload, 7}, shared, hash::sha256(shared));
      ASSERT_TRUE((*put)->finish().ok());
    }
    const bool ended = ends_at(GetParam(), pass, [&](Runtime& runtime) -> Status {
      SY_ASSIGN_OR_RETURN(const auto tier, open_directory(runtime, test_options(path)));
      return put_all(*tier, kFirst);
    });
    if (ended) ++crashes;

    auto tier = open_directory(real_runtime(), test_options(path));
    ASSERT_TRUE(tier.ok()) << tier.status().to_string();
    std::vector<std::string> foreign;
    const auto objects = (*tier)->list_attempt(kFirst, &foreign);
    ASSERT_TRUE(objects.ok());
    EXPECT_TRUE(foreign.empty());
    for (const ObjectStat& object : *objects) {
      const auto wanted = bytes_of(object.name.index);
      std::vector<std::byte> found(object.bytes);
      ASSERT_TRUE((*tier)->read(object.name, {{0, found}}).ok());
      EXPECT_EQ(found, wanted) << "an object with a name is whole";
    }
    const auto entries = (*tier)->list_content();
    ASSERT_TRUE(entries.ok());
    for (const ContentEntry& entry : *entries) {
      EXPECT_TRUE(entry.bytes == 3000 || entry.bytes >= 2 * 1024 * 1024) << "an entry is whole";
    }
    if (const auto marker = (*tier)->read_committed(kFirst); marker.ok()) {
      EXPECT_EQ(*marker, "record");
      EXPECT_EQ(objects->size(), 3U);
    }
    // Repeating the same attempt, or another one, succeeds; and no temporary file stays.
    EXPECT_TRUE(put_all(**tier, kFirst).ok());
    EXPECT_TRUE(put_all(**tier, kSecond).ok());
    EXPECT_TRUE((*tier)->remove_temporaries(kFirst, 0).ok());
    EXPECT_TRUE(std::filesystem::is_empty(path + "/" + directory::attempt_path(kFirst) + "/tmp"));
    if (!ended) break;
  }
  EXPECT_GT(crashes, 0) << "the point " << GetParam() << " is passed at least once";
}

INSTANTIATE_TEST_SUITE_P(Points, DirectoryCrash,
                         testing::Values("tier.mkdir", "tier.open_tmp", "tier.write", "tier.sync", "tier.close",
                                         "tier.after_write", "tier.link", "tier.after_link", "tier.content_link",
                                         "tier.after_content_link", "tier.remove", "tier.link_content",
                                         "tier.after_link_content", "tier.flush", "tier.after_flush_files",
                                         "tier.after_flush_folders", "tier.marker", "tier.after_marker_write"));

}  // namespace
}  // namespace steelyard::tiers
