// A process that ends at any step of the protocol leaves nothing half visible, no file, and an account that is right.
#include <gtest/gtest.h>

#include "hash/sha256.h"
#include "tiers/directory/test_crash.h"
#include "tiers/memory/test_instance.h"

namespace steelyard::tiers {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;
const AttemptName kFirst{std::string(64, 'a'), 1, std::string(32, '1')};
const AttemptName kSecond{std::string(64, 'a'), 1, std::string(32, '2')};

std::vector<std::byte> bytes_of(std::uint32_t index) {
  const std::size_t sizes[] = {3000, 2 * kMiB, 2 * kMiB + 99};
  return std::vector<std::byte>(sizes[index % 3], static_cast<std::byte>(index + 1));
}

/// What an operation does: reserve, put, replace one, evict another operation's.
Status run_operation(Tier& tier, const AttemptName& attempt) {
  SY_ASSIGN_OR_RETURN(const auto reservation, tier.reserve(attempt.operation, 8 * kMiB));
  for (std::uint32_t index = 0; index < 3; ++index) {
    const auto bytes = bytes_of(index);
    SY_ASSIGN_OR_RETURN(auto put, tier.start_put({attempt, ObjectKind::kPayload, index}, bytes, hash::sha256(bytes)));
    SY_RETURN_IF_ERROR(put->finish().status());
  }
  const auto bytes = bytes_of(2);
  SY_ASSIGN_OR_RETURN(auto replacement,
                      tier.open_replacement({{attempt, ObjectKind::kPayload, 2}}, bytes.size(), hash::sha256(bytes)));
  SY_RETURN_IF_ERROR(replacement->append(bytes));
  SY_RETURN_IF_ERROR(replacement->finish().status());
  return tier.remove_attempt(attempt == kFirst ? kSecond : kFirst);
}

class MemoryCrash : public testing::TestWithParam<const char*> {};

TEST_P(MemoryCrash, LeavesWholeObjectsAndARightAccount) {
  int crashes = 0;
  for (int pass = 1; pass <= 5; ++pass) {
    const TestTmpfs folder;
    if (!folder.made()) GTEST_SKIP() << "/dev/shm cannot be used here";
    MemoryOptions options = memory_test_options(folder.path());
    options.memory_limits = [] { return std::vector<MemoryLimit>(); };
    {
      auto tier = open_memory(real_runtime(), options);
      ASSERT_TRUE(tier.ok());
      const auto shared = bytes_of(1);
      auto put = (*tier)->start_put({kSecond, ObjectKind::kPayload, 7}, shared, hash::sha256(shared));
      ASSERT_TRUE((*put)->finish().ok());
    }
    const bool ended = ends_at(GetParam(), pass, [&](Runtime& runtime) -> Status {
      SY_ASSIGN_OR_RETURN(const auto tier, open_memory(runtime, options));
      return run_operation(*tier, kFirst);
    });
    if (ended) ++crashes;

    auto opened = open_memory(real_runtime(), options);
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    Tier& tier = **opened;
    const auto objects = tier.list_attempt(kFirst);
    ASSERT_TRUE(objects.ok());
    for (const ObjectStat& object : *objects) {
      const auto wanted = bytes_of(object.name.index);
      ASSERT_EQ(object.bytes, wanted.size());
      const AddressRange range = AddressRange::reserve(object.bytes).value();
      ASSERT_TRUE(tier.map(object.name, object.bytes, range, 0).ok());
      const auto found = range.view(0, object.bytes);
      EXPECT_TRUE(std::equal(found.begin(), found.end(), wanted.begin())) << "an object with a name is whole";
    }
    // The account: first whoever looks for space frees what nobody uses, then nothing but objects is counted.
    const std::uint64_t available = *tier.available_bytes();
    std::uint64_t held = 0;
    const auto content = tier.list_content();
    ASSERT_TRUE(content.ok());
    for (const auto& entry : *content) held += (entry.bytes + 4095) / 4096 * 4096;
    for (const auto& object : *objects) {
      const auto entry = tier.stat_content(hash::sha256(bytes_of(object.name.index)));
      if (!entry.ok() || entry->storage != object.storage) held += (object.bytes + 4095) / 4096 * 4096;
    }
    if (!tier.stat_content(hash::sha256(bytes_of(1))).ok() && tier.stat({kSecond, ObjectKind::kPayload, 7}).ok()) {
      held += 2 * kMiB;
    }
    EXPECT_EQ(available, 64 * kMiB - held);

    EXPECT_TRUE(run_operation(tier, kFirst).ok());
    EXPECT_TRUE(run_operation(tier, kSecond).ok());
    ASSERT_TRUE(tier.remove_attempt(kSecond).ok());
    ASSERT_TRUE(tier.remove_group(kFirst.group).ok());
    EXPECT_EQ(*tier.available_bytes(), 64 * kMiB) << "all of it comes back";
    if (!ended) break;
  }
  EXPECT_GT(crashes, 0) << "the point " << GetParam() << " is passed at least once";
}

INSTANTIATE_TEST_SUITE_P(Points, MemoryCrash,
                         testing::Values("tier.claim", "tier.claim_write", "tier.after_claim", "tier.statvfs",
                                         "tier.open_tmp", "tier.fallocate", "tier.write", "tier.close",
                                         "tier.after_write", "tier.link", "tier.after_link", "tier.content_link",
                                         "tier.after_content_link", "tier.link_content", "tier.after_link_content",
                                         "tier.mkdir", "tier.remove", "tier.after_replacement_write",
                                         "tier.after_replacement_content", "tier.replace_link",
                                         "tier.after_replace_link", "tier.replace", "tier.after_replace", "tier.stat"));

}  // namespace
}  // namespace steelyard::tiers
