// Scenarios as text (tests/scenarios/*.txt): commands, `----`, what they come to. STEELYARD_REWRITE=1 writes the output
// anew; the difference is then read by whoever reviews it.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/units.h"
#include "formats/ref.h"
#include "metadata/test_bench.h"
#include "metadata/validate.h"

namespace steelyard::metadata {
namespace {

class Scenario {
 public:
  std::string run(const std::string& line) {
    words_.clear();
    std::istringstream in(line);
    std::string verb;
    in >> verb;
    std::string target;
    in >> target;
    for (std::string word; in >> word;) {
      const auto equals = word.find('=');
      words_[word.substr(0, equals)] = equals == std::string::npos ? "" : word.substr(equals + 1);
    }
    if (verb == "clock") {
      bench_.advance(parse_duration_ms(target).value());
      return "";
    }
    if (verb == "boot") {
      bench_.now.epoch = target;
      bench_.now.mono_ms = 0;
      return "";
    }
    if (verb == "list") {
      const auto equals = target.find('=');
      words_[target.substr(0, equals)] = equals == std::string::npos ? "" : target.substr(equals + 1);
      return list();
    }
    const formats::Ref ref = formats::parse_ref(target).value();
    identity_ = {{"default", "default", ref.resource_id, ref.revision.value_or("main")},
                 ref.weight_generation.value_or(0)};
    if (verb == "show") return show(get_record(bench_.state, identity_));
    return apply(command(verb, ref.weight_generation.has_value()));
  }

 private:
  bool has(const std::string& word) const { return words_.contains(word); }
  std::string get(const std::string& word, const std::string& otherwise) const {
    return has(word) ? words_.at(word) : otherwise;
  }
  std::uint64_t fence() const {
    return std::stoull(get("fence", std::to_string(bench_.record(identity_).metadata_generation)));
  }
  std::uint32_t attempt() const {
    return static_cast<std::uint32_t>(
        std::stoul(get("attempt", std::to_string(bench_.record(identity_).import_attempt))));
  }
  std::string token() const { return token_of(get("token", "a").front()); }
  std::int64_t ttl() const { return parse_duration_ms(get("ttl", "30s")).value(); }
  std::string lease_id() const { return lease_id_of(identity_, get("holder", "reader"), "n"); }

  Command command(const std::string& verb, bool numbered) const {
    if (verb == "begin") {
      auto begin = TestBench::begin(identity_, get("token", "a").front());
      if (!numbered) begin.weight_generation.reset();
      if (has("label")) begin.labels = {{"label", get("label", "")}};
      return begin;
    }
    if (verb == "renew") return RenewWeightImport{identity_, token(), attempt()};
    if (verb == "release") return ReleaseWeightImport{identity_, token(), attempt()};
    if (verb == "commit") return CommitWeightImport{identity_, token(), attempt(), fence(), summary_of(identity_)};
    if (verb == "abort") {
      if (has("token")) return AbortWeightImport{identity_, token(), attempt(), 0, false, {}};
      AbortWeightImport abort{identity_, "", 0, fence(), has("force"), {}};
      if (has("idle")) abort.only_if_idle_ms = parse_duration_ms(get("idle", "24h")).value();
      return abort;
    }
    if (verb == "acquire") {
      auto acquire = TestBench::acquire(identity_, get("holder", "reader"), ttl());
      acquire.allow_degraded = has("degraded");
      return acquire;
    }
    if (verb == "renew-lease") return RenewLease{lease_id(), ttl()};
    if (verb == "release-lease") return ReleaseLease{lease_id()};
    if (verb == "reconcile") {
      ReconcileRevision reconcile{identity_, fence(), {}};
      if (has("damaged")) reconcile.seen.damage.objects = {get("damaged", "")};
      if (has("absent")) reconcile.seen.cold_readable = false;
      return reconcile;
    }
    if (verb == "delete") {
      return DeleteWeightRevision{identity_, fence(), has("drain") ? DeleteMode::kDrain : DeleteMode::kRefuse};
    }
    if (verb == "compact") return CompactTombstones{identity_.lineage, identity_.weight_generation};
    if (verb == "finish") return FinishDelete{identity_, fence()};
    ADD_FAILURE() << "unknown verb " << verb;
    return BeginEpoch{};
  }

  std::string apply(const Command& command) {
    const Result<Answer> answer = bench_.run(command);
    std::string out;
    for (const Entry& entry : bench_.last) out += "  " + std::string(name_of(decode_entry(entry)->body)) + "\n";
    if (!answer.ok()) return out + answer.status().to_string() + "\n";
    if (answer->record) out += show(*answer->record);
    if (answer->lease) {
      const auto life = life_of(*answer->lease, epoch_of(bench_.state).value(), bench_.now);
      out += "lease of " + answer->lease->holder + ", " + format_age(life.left_ms) + " left\n";
    }
    return out.empty() ? "ok\n" : out;
  }

  static std::string show(const Result<RevisionRecord>& found) {
    if (!found.ok()) return found.status().to_string() + "\n";
    const RevisionRecord& record = *found;
    std::string out = formats::format_ref(record.identity) + " " + std::string(name_of(record.availability)) + " " +
                      std::string(name_of(record.residency)) + " generation " +
                      std::to_string(record.metadata_generation) + " attempt " + std::to_string(record.import_attempt);
    if (record.damage.count > 0) out += " damaged " + std::to_string(record.damage.count);
    return out + "\n";
  }

  std::string list() const {
    ListQuery query;
    query.tenant_id = "default";
    query.namespace_id = "default";
    query.all = has("all");
    query.newest = has("newest");
    if (has("resource")) query.resource_id = get("resource", "");
    query.limit = std::stoull(get("limit", "100"));
    std::string out;
    do {
      const Result<ListPage> page = list_revisions(bench_.state, query);
      if (!page.ok()) return out + page.status().to_string() + "\n";
      for (const RevisionRecord& record : page->records) out += show(record);
      query.page_token = page->next_page_token;
      if (!query.page_token.empty()) out += "next page\n";
    } while (!query.page_token.empty());
    return out.empty() ? "nothing\n" : out;
  }

  TestBench bench_;
  Identity identity_;
  std::map<std::string, std::string> words_;
};

void run_file(const std::filesystem::path& path, bool rewrite) {
  SCOPED_TRACE(path.filename().string());
  std::ifstream in(path);
  std::string text;
  std::string fresh;
  std::string expected;
  std::string actual;
  bool output = false;
  Scenario scenario;
  const auto end_block = [&] {
    if (!output) return;
    if (!rewrite) {
      EXPECT_EQ(actual, expected) << fresh;
    }
    fresh += actual + "\n";
    actual.clear();
    expected.clear();
    output = false;
  };
  for (std::string line; std::getline(in, line);) {
    if (line == "----") {
      output = true;
      fresh += line + "\n";
    } else if (line.empty()) {
      if (output) {
        end_block();
      } else {
        fresh += "\n";
      }
    } else if (output) {
      expected += line + "\n";
    } else {
      fresh += line + "\n";
      if (!line.starts_with('#')) actual += scenario.run(line);
    }
  }
  end_block();
  if (!rewrite) return;
  while (fresh.ends_with("\n\n")) fresh.pop_back();
  std::ofstream(path) << fresh;
}

TEST(Scenarios, AllFiles) {
  const char* wish = std::getenv("STEELYARD_REWRITE");
  const bool rewrite = wish != nullptr && std::string(wish) == "1";
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(SY_SCENARIO_DIR)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  ASSERT_FALSE(files.empty());
  for (const auto& file : files) run_file(file, rewrite);
}

}  // namespace
}  // namespace steelyard::metadata
