// Publishing a revision step by step, past the store's import: what a client of the lifecycle's interface may do.
#include <fmt/format.h>

#include <utility>

#include "formats/identity.h"
#include "formats/stored_manifest.h"
#include "hash/sha256.h"
#include "hash/xxh3.h"
#include "sim/checkpoints.h"
#include "sim/workload/calls.h"
#include "sim/workload/client.h"
#include "store/context.h"

namespace steelyard::sim {
/// One payload object and the manifest, flushed.
Result<metadata::GroupSummary> Client::put_note(const metadata::RevisionRecord& record) {
  const auto& [path, text] = *checkpoints().back().files.begin();
  const Digest sha256 = hash::sha256(as_bytes(text));
  const tiers::AttemptName attempt = store::attempt_of(record);
  observer_.expect(attempt, {text.size()});
  SY_ASSIGN_OR_RETURN(const auto payload, tier_->start_put(store::payload_of(attempt, 0), as_bytes(text), sha256));
  SY_RETURN_IF_ERROR(payload->finish().status());

  formats::StoredManifest manifest;
  manifest.identity = record.identity;
  manifest.created_at_ms = record.created_at_ms;
  manifest.chunk_bytes = limits::kChunkBytesMin;
  manifest.source = {{"kind", "folder"}};
  manifest.runs = {{text.size(), limits::kChunkBytesMin, 0, 1}};
  manifest.objects = {{text.size(), sha256, {hash::xxh3(as_bytes(text))}}};
  manifest.files = {{path, formats::FileKind::kMetadata, text.size(), sha256, {{0, 0, text.size()}}}};
  SY_ASSIGN_OR_RETURN(const std::string json, formats::write_manifest(manifest));
  const Digest manifest_sha256 = hash::sha256(as_bytes(json));
  SY_ASSIGN_OR_RETURN(const auto put, tier_->start_put(store::manifest_of(attempt), as_bytes(json), manifest_sha256));
  SY_RETURN_IF_ERROR(put->finish().status());
  SY_RETURN_IF_ERROR(tier_->flush(attempt));
  observer_.set_flushed(attempt, true);
  return metadata::GroupSummary{1, text.size(), formats::payload_keys_sha256(record.identity, 1),
                                manifest_sha256.hex()};
}

void Client::publish_by_hand(const std::string& resource) {
  metadata::BeginWeightImport begin;
  begin.lineage = {"default", "default", resource, "main"};
  begin.token = process_.runtime().random_hex(16);
  begin.holder = process_.name();
  begin.process = process_.identity();
  begin.ttl_ms = profile_.writer_ttl_ms;
  Operation& operation = start("publish by hand " + resource);
  const std::size_t checkpoint = checkpoints().size() - 1;
  operation.checkpoint = checkpoint;
  const auto begun = catalog_.begin_weight_import(begin);
  if (!alive() || !begun.ok()) return end(operation, begun.status());
  const metadata::RevisionRecord& record = *begun->record;
  const auto summary = put_note(record);
  if (summary.ok() && alive()) {
    metadata::CommitWeightImport commit;
    commit.identity = record.identity;
    commit.token = begin.token;
    commit.import_attempt = record.import_attempt;
    commit.expected_metadata_generation = record.metadata_generation;
    commit.summary = *summary;
    commit_and_repeat(commit, checkpoint);
  }
  observer_.forget(store::attempt_of(record));
  end(operation, summary.status());
}

/// After a lost answer the same Commit tells the truth, and goes on doing so; another one does not get through.
void Client::commit_and_repeat(const metadata::CommitWeightImport& command, std::size_t checkpoint) {
  const std::string name = text_of(command.identity);
  int answered = 0;
  for (int tries = 0; tries < kTriesMax && alive() && answered < 2; ++tries) {
    const auto answer = catalog_.commit_weight_import(command);
    if (!alive()) return;
    const Revision* const revision = bench_.model.find(command.identity);
    const bool published =
        revision != nullptr && revision->published() && revision->now().import_attempt == command.import_attempt;
    if (answer.ok()) {
      ++answered;
      if (!published || revision->checkpoint != checkpoint || *answer != revision->now()) {
        bench_.model.violated(name + " is said to be committed as it is not");
      }
      pause(profile_.pause_ms_max);
      continue;
    }
    const bool refused = !may_try_again(answer.code());
    if (refused && published) {
      bench_.model.violated(fmt::format("a repeated Commit of {} is refused: {}", name, answer.status().to_string()));
    }
    if (refused) return;
  }
  if (answered == 0 || !alive()) return;
  metadata::CommitWeightImport other = command;
  other.summary.logical_bytes += 1;
  if (catalog_.commit_weight_import(other).ok())
    bench_.model.violated(name + " is committed twice, with other contents");
}

}  // namespace steelyard::sim
