#include "metadata/test_bench.h"

namespace steelyard::metadata {
namespace {

/// Counts what a page costs.
class CountingView final : public StateView {
 public:
  explicit CountingView(const StateView& base) : base_(base) {}
  std::uint64_t sequence() const override { return base_.sequence(); }
  Result<std::optional<std::string>> get(std::string_view key) const override {
    ++gets;
    return base_.get(key);
  }
  Status scan(std::string_view from, std::string_view to, bool descending, const Visitor& visit) const override {
    return base_.scan(from, to, descending, [&](std::string_view key, std::string_view value) {
      ++rows;
      return visit(key, value);
    });
  }
  mutable std::size_t gets = 0;
  mutable std::size_t rows = 0;

 private:
  const StateView& base_;
};

ListQuery query_of(std::size_t limit) {
  ListQuery query;
  query.tenant_id = "default";
  query.namespace_id = "production";
  query.limit = limit;
  return query;
}

TEST(List, APageReadsItsOwnRows) {
  TestBench bench;
  for (int i = 0; i < 500; ++i) bench.publish(identity_of("r" + std::to_string(i), 1));
  CountingView view(bench.state);
  ListQuery query = query_of(20);
  const ListPage first = list_revisions(view, query).value();
  EXPECT_EQ(first.records.size(), 20U);
  EXPECT_LE(view.gets, 21U);
  EXPECT_LE(view.rows, 21U);
  // A page in the middle costs no more, and another limit takes the same token.
  query.page_token = first.next_page_token;
  query.limit = 10;
  view.gets = view.rows = 0;
  const ListPage second = list_revisions(view, query).value();
  EXPECT_EQ(second.records.front().identity.lineage.resource_id, "r20");
  EXPECT_LE(view.rows, 11U);
  // One resource costs its own rows.
  query = query_of(20);
  query.resource_id = "r300";
  view.gets = view.rows = 0;
  EXPECT_EQ(list_revisions(view, query)->records.size(), 1U);
  EXPECT_LE(view.rows, 1U);
  view.gets = view.rows = 0;
  EXPECT_TRUE(find_revision(view, identity_of("r300", 1))->has_value());
  EXPECT_EQ(view.gets + view.rows, 1U);
}

TEST(List, TheLastFullPageHasNoToken) {
  TestBench bench;
  for (int i = 0; i < 4; ++i) bench.publish(identity_of("r" + std::to_string(i), 1));
  ListQuery query = query_of(2);
  query.page_token = list_revisions(bench.state, query)->next_page_token;
  const ListPage last = list_revisions(bench.state, query).value();
  EXPECT_EQ(last.records.size(), 2U);
  EXPECT_EQ(last.next_page_token, "");
}

TEST(List, ATokenIsBoundToItsQuery) {
  TestBench bench;
  for (int i = 0; i < 4; ++i) bench.publish(identity_of("r" + std::to_string(i), 1));
  const std::string token = list_revisions(bench.state, query_of(2))->next_page_token;
  const auto refused = [&](auto change) {
    ListQuery query = query_of(2);
    query.page_token = token;
    change(query);
    return list_revisions(bench.state, query).code();
  };
  EXPECT_EQ(refused([](ListQuery&) {}), Code::kOk);
  EXPECT_EQ(refused([](ListQuery& query) { query.limit = 100; }), Code::kOk);
  EXPECT_EQ(refused([](ListQuery& query) { query.all = true; }), Code::kInvalidArgument);
  EXPECT_EQ(refused([](ListQuery& query) { query.newest = true; }), Code::kInvalidArgument);
  EXPECT_EQ(refused([](ListQuery& query) { query.namespace_id = "other"; }), Code::kInvalidArgument);
  EXPECT_EQ(refused([](ListQuery& query) { query.resource_id = "r1"; }), Code::kInvalidArgument);
  EXPECT_EQ(refused([](ListQuery& query) { query.states = {Availability::kReady}; }), Code::kInvalidArgument);
  EXPECT_EQ(refused([](ListQuery& query) { query.labels = {{"a", "b"}}; }), Code::kInvalidArgument);
  EXPECT_EQ(refused([](ListQuery& query) { query.page_token.back() ^= 1; }), Code::kInvalidArgument);
  EXPECT_EQ(refused([](ListQuery& query) { query.page_token = "zz"; }), Code::kInvalidArgument);
  EXPECT_EQ(refused([](ListQuery& query) { query.limit = 1001; }), Code::kInvalidArgument);
}

TEST(List, LabelsAndNewest) {
  TestBench bench;
  for (std::int64_t generation = 1; generation <= 3; ++generation) {
    auto begin = bench.begin(identity_of("llama", generation), 'a');
    begin.labels = {{"even", generation % 2 == 0 ? "yes" : "no"}, {"kind", "base"}};
    bench.must(begin);
    bench.must(bench.commit(identity_of("llama", generation), 'a', 1, 1));
  }
  ListQuery query = query_of(10);
  query.labels = {{"even", "yes"}};
  ASSERT_EQ(list_revisions(bench.state, query)->records.size(), 1U);
  query.newest = true;
  EXPECT_EQ(list_revisions(bench.state, query)->records.front().identity.weight_generation, 2);
  query.labels = {{"kind", "base"}};
  ASSERT_EQ(list_revisions(bench.state, query)->records.size(), 1U);
  EXPECT_EQ(list_revisions(bench.state, query)->records.front().identity.weight_generation, 3);
}

}  // namespace
}  // namespace steelyard::metadata
