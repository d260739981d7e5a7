#include "metadata/memory_instance.h"

#include <gtest/gtest.h>

#include <string>

namespace steelyard::metadata {
namespace {

const std::string kRecorded(32, '1');
const std::string kOther(32, '2');

InstanceView view(const std::string& named, const std::string& mounted, const std::string& boot_id) {
  return view_of_instance({named, named.empty() ? "" : "boot-a"}, {mounted, boot_id});
}

TEST(MemoryInstance, IsMountedElsewhereOrGone) {
  EXPECT_EQ(view(kRecorded, kRecorded, "boot-a"), InstanceView::kMounted);
  EXPECT_EQ(view(kRecorded, kOther, "boot-a"), InstanceView::kElsewhere);
  EXPECT_EQ(view(kRecorded, "", "boot-a"), InstanceView::kElsewhere);
  EXPECT_EQ(view(kRecorded, kOther, "boot-b"), InstanceView::kGone);
  EXPECT_EQ(view(kRecorded, "", "boot-b"), InstanceView::kGone);
  EXPECT_EQ(view(kRecorded, "", ""), InstanceView::kElsewhere) << "who could not look knows nothing of it";
  EXPECT_EQ(view("", "", "boot-a"), InstanceView::kNone);
  EXPECT_EQ(view("", kOther, "boot-a"), InstanceView::kNone);
}

TEST(MemoryInstance, OneWhoseFolderHasTheMountedOneIsGone) {
  EXPECT_EQ(view(std::string(24, '1') + std::string(8, '2'), kRecorded, "boot-a"), InstanceView::kGone);
  EXPECT_EQ(view(std::string(23, '1') + std::string(9, '2'), kRecorded, "boot-a"), InstanceView::kElsewhere);
  EXPECT_EQ(view("1", kRecorded, "boot-a"), InstanceView::kElsewhere) << "no id of today";
}

}  // namespace
}  // namespace steelyard::metadata
