// Model: what the rules of the lifecycle (docs/lifecycle.md) allow, kept apart from the code that follows them.
//
// It is told of every append the moment it is made, whoever made it, and judges it against everything before: legal
// edges, generations by one, attempts, who may publish, who may take over, which leases may end. What clients are
// answered is then judged against what was appended: nothing may be acknowledged that is not there, and nothing that is
// certainly not there may have happened.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalog/catalog.h"
#include "metadata/codec.h"
#include "metadata/rules.h"
#include "metadata/types.h"
#include "oplog/op_log.h"
#include "sim/checkers/tally.h"
#include "sim/checkers/verdict.h"
#include "sim/runtime/world.h"
#include "store/store.h"

namespace steelyard::sim {

/// One call of a client, and what it is known to have done.
struct Operation {
  std::uint64_t id = 0;
  std::string what;
  ProcessIdentity process;
  std::uint64_t begun_at = 0;      ///< the log's sequence then
  std::int64_t begun_mono_ms = 0;  ///< by the host's clock
  std::optional<std::size_t> checkpoint;
  std::string releases;  ///< a lease that it may end
  bool may_abort = false;
  bool forces = false;  ///< aborts whoever writes
  bool may_delete = false;
  bool drains = false;                      ///< deletes under live leases
  bool finishes = false;                    ///< takes away what is DELETING
  bool compacts = false;                    ///< tombstones
  bool operates = false;                    ///< starts, runs and ends operations
  std::optional<metadata::Identity> moves;  ///< the revision that it was asked to move
  bool makes_room = false;                  ///< takes others out of memory for that one
  bool follows = false;                     ///< moves what the policies ask for
  bool cancels = false;                     ///< ends one that somebody else may run
  bool sets_policy = false;
  // Filled by the appends it made:
  std::map<metadata::Identity, std::uint32_t> attempts;
  std::optional<metadata::Identity> published;
  std::optional<metadata::Identity> aborted;
  std::optional<metadata::Identity> deleted;  ///< it began to
  std::set<metadata::Identity> tombstones;
  std::map<metadata::Identity, metadata::Operation> ended;  ///< the last on each
  std::set<std::string> cancelled;                          ///< operations
  bool put_lease = false;
  bool released = false;  ///< the lease that it may end
  bool put_policy = false;
  bool disturbed = false;  ///< the tiers or the log have failed it
};

/// One of a published revision's objects.
struct Member {
  Digest sha256;
  std::uint64_t bytes = 0;
};

/// An operation on a revision, as the log has it.
struct Move {
  metadata::Operation operation;
  std::uint64_t begun_at = 0;            ///< the log's sequence
  std::vector<ProcessIdentity> runners;  ///< in their order
  std::uint64_t permitted = 0;
  std::uint64_t processed_members = 0;
  std::uint64_t processed_bytes = 0;
  bool paused = false;  ///< by a lease
  metadata::OperationState state = metadata::OperationState::kRunning;
  metadata::LastUse ended;  ///< when
};

/// A revision's whole life so far.
struct Revision {
  struct Fact {
    std::uint64_t sequence = 0;
    metadata::RevisionRecord record;
  };
  std::vector<Fact> facts;                          ///< of generation 1, 2, ...
  std::map<std::uint32_t, std::uint64_t> attempts;  ///< the operation that each belongs to
  std::optional<std::size_t> checkpoint;            ///< what was published
  std::optional<metadata::Writer> writer;
  std::optional<metadata::Runner> runner;
  std::vector<Member> objects;        ///< once published: the manifest, then each payload object
  std::map<std::string, Move> moves;  ///< all operations that it ever had, by id

  const metadata::RevisionRecord& now() const { return facts.back().record; }
  bool published() const { return now().committed_seq != 0; }
  bool readable() const { return is_published(now().availability); }
  bool compacted = false;  ///< its record is gone
  std::uint64_t compacted_at = 0;
};

class Model {
 public:
  Model(World& world, Verdict& verdict) : world_(world), verdict_(verdict) {}

  /// The reference stays good.
  Operation& begin(Process& process, std::string what);
  /// `disturbed`: what the running call asked for has failed in between, so it may have to do without.
  void witness(Process& process, const oplog::Append& append, bool disturbed);

  /// Bits of this content were damaged on the disk.
  void damage(const Digest& sha256) { damaged_.emplace(sha256, sequence_); }
  /// The same of a replica in memory; nobody says so, as the cold one is read instead.
  void damage_hot(const std::string& instance, const Digest& sha256) { damaged_hot_.emplace(instance, sha256); }
  bool is_damaged_hot(const std::string& instance, const Digest& sha256) const {
    return damaged_hot_.contains({instance, sha256});
  }
  /// Reads may be handed other bits than the stored ones.
  void allow_bad_reads() { bad_reads_ = true; }
  bool may_be_damaged(const Revision& revision) const;
  bool any_damage() const { return bad_reads_ || !damaged_.empty(); }
  bool is_damaged(const Digest& sha256) const { return damaged_.contains(sha256); }
  /// It was whole on the disk at that sequence of the log.
  bool was_whole_at(const Digest& sha256, std::uint64_t sequence) const {
    const auto found = damaged_.find(sha256);
    return found == damaged_.end() || found->second >= sequence;
  }
  bool bad_reads() const { return bad_reads_; }

  std::uint64_t sequence() const { return sequence_; }
  const std::map<metadata::Identity, Revision>& revisions() const { return revisions_; }
  Revision* find(const metadata::Identity& identity);
  const std::map<std::string, metadata::Lease>& leases() const { return leases_; }
  std::uint64_t leases_granted() const { return leases_granted_; }
  const Tally& tally() const { return tally_; }
  bool lease_lives(const std::string& lease_id) const;

  // --- what a client was answered
  void import_answered(const Operation& operation, const Result<store::ImportResult>& answer, bool source_changed);
  void listed(const metadata::ListQuery& query, const Result<metadata::ListPage>& answer);
  /// A record that a read showed: it was the current one at some time during the operation.
  void shown(const Operation& operation, const metadata::RevisionRecord& record);
  void lease_acquired(const Operation& operation, const metadata::Identity& identity,
                      const Result<metadata::Lease>& answer);
  void lease_renewed(const Operation& operation, const std::string& lease_id, const Result<metadata::Lease>& answer);
  void lease_released(const Operation& operation, const std::string& lease_id, const Status& answer);
  void aborted(const Operation& operation, const metadata::Identity& identity,
               const Result<metadata::RevisionRecord>& answer);

  void erased(const Operation& operation, const metadata::Identity& identity,
              const Result<store::RemovalResult>& answer);
  /// `short_of_room`: there was not room for everything all the time.
  void moved(const Operation& operation, const metadata::Identity& identity, bool waited, bool short_of_room,
             const Result<store::ResidencyResult>& answer);
  void cancelled(const Operation& operation, const std::string& operation_id,
                 const Result<metadata::OperationView>& answer);
  void policy_set(const Operation& operation, const Result<metadata::RevisionRecord>& answer);
  /// The end of what is asked for nothing that may be refused: gc, reconcile, follow_policy.
  void passed(const Operation& operation, bool short_of_room, const Status& answer);
  /// A batch of changes. `has_next`: the log has what follows the query's start; `begun_at`: its sequence at the call.
  void followed(const catalog::WatchQuery& query, bool has_next, std::uint64_t begun_at,
                const catalog::WatchBatch& batch);
  /// A process took a replica of a payload object out of memory.
  struct Removal {
    metadata::Identity identity;
    std::uint32_t object = 0;
    std::string brought_by;      ///< the operation
    bool readable_left = false;  ///< the disk or a memory still has it whole
    std::string instance = {};   ///< of the memory in which it lay
  };
  void replica_removed(const Process& process, const Removal& removal);
  /// A live lease of the revision.
  std::optional<metadata::Lease> live_lease_of(const metadata::Identity& identity) const;

  void violated(const std::string& what) { verdict_.violated(what); }

 private:
  void see(Operation& by, const oplog::Append& append, const metadata::RevisionPut& put);
  void see(Operation& by, const oplog::Append& append, const metadata::WriterPut& put);
  void see(Operation& by, const oplog::Append& append, const metadata::WriterRemoved& removed);
  void see(Operation& by, const oplog::Append& append, const metadata::LeasePut& put);
  void see(Operation& by, const oplog::Append& append, const metadata::LeaseRemoved& removed);
  void see(Operation& by, const oplog::Append& append, const metadata::EpochBegun& begun);
  void see(Operation& by, const oplog::Append& append, const metadata::WatermarkPut& put);
  void see(Operation& by, const oplog::Append& append, const metadata::RevisionRemoved& removed);
  void see(Operation& by, const oplog::Append& append, const metadata::RunnerPut& put);
  void see(Operation& by, const oplog::Append& append, const metadata::RunnerRemoved& removed);
  void see(Operation& by, const oplog::Append& append, const metadata::OperationForgotten& forgotten);
  void see(Operation& by, const oplog::Append& append, const metadata::AccessPut& put);
  template <typename Other>
  void see(Operation& by, const oplog::Append& append, const Other& entry);
  /// A lease that ends makes its last use the revision's, in the same append.
  void used(const metadata::Identity& identity, const metadata::LastUse& use);
  void check_uses();
  void check_takeover(const Operation& by, const oplog::Append& append, const Revision& revision);
  void check_edge(const Operation& by, const metadata::RevisionRecord& before, const metadata::RevisionRecord& after,
                  const Revision& revision);
  void check_residency(const metadata::RevisionRecord& record);
  void check_operations(Operation& by, const oplog::Append& append, const metadata::RevisionRecord& before,
                        const metadata::RevisionRecord& after, Revision& revision);
  void check_begun(const Operation& by, const oplog::Append& append, const metadata::RevisionRecord& after,
                   Revision& revision);
  void check_plan(const metadata::Operation& begun, const Revision& revision);
  void check_reason(const Operation& by, const oplog::Append& append, const metadata::Operation& begun,
                    const Revision& revision);
  void check_policy(const Operation& by, const oplog::Append& append, const metadata::Operation& begun,
                    const Revision& revision);
  void check_passed_over(const Operation& by, const oplog::Append& append, const metadata::Operation& begun,
                         const Revision& revision);
  bool was_read_lately(const Operation& by, const Revision& revision) const;
  bool is_cooling(const Revision& revision, const oplog::Append& append) const;
  bool is_steady(const Operation& by, const Revision& revision) const;
  metadata::LastUse use_of(const Revision& revision) const;
  bool holds_alone(const Revision& revision, const std::string& instance) const;
  void check_progress(const metadata::Runner& runner);
  bool was_stray(const Operation& by, const Revision& revision, const std::string& instance) const;
  void count_pause(const metadata::Identity& identity);
  void check_ended(Operation& by, const oplog::Append& append, const metadata::RevisionRecord& before,
                   const metadata::RevisionRecord& after, Revision& revision);
  /// Who appended its entry may be told that this is not known, or that something failed after it, and nothing else.
  void check_told(const Operation& operation, bool appended, const Status& answer, std::string_view what);
  void lease_granted(const Operation& operation, const metadata::Lease& lease);
  /// Perhaps only by one that ran out.
  bool leased_during(const Operation& operation, const metadata::Identity& identity) const;

  World& world_;
  Verdict& verdict_;
  std::map<std::uint64_t, Operation> operations_;
  std::uint64_t next_operation_ = 1;
  std::uint64_t sequence_ = 0;
  std::string epoch_;
  std::uint64_t epoch_ordinal_ = 0;
  std::int64_t last_mono_ms_ = 0;  ///< of the last append
  std::string epoch_before_;       ///< while an append that begins an epoch is looked at
  std::int64_t last_mono_before_ms_ = 0;
  bool begins_epoch_ = false;
  std::map<metadata::Identity, Revision> revisions_;
  std::map<std::string, metadata::Lease> leases_;
  std::map<metadata::Identity, metadata::LastUse> uses_;  ///< what the log has to say
  std::map<metadata::Identity, metadata::LastUse> uses_told_;
  std::map<metadata::Identity, std::uint64_t> lease_ended_at_;  ///< the log's sequence
  std::map<metadata::Lineage, std::int64_t> watermarks_;
  std::uint64_t leases_granted_ = 0;
  Tally tally_;
  std::map<Digest, std::uint64_t> damaged_;  ///< and the log's sequence then
  std::set<std::pair<std::string, Digest>> damaged_hot_;
  std::set<std::string> operation_ids_;
  bool bad_reads_ = false;
};

/// "resource@main#3", for messages.
std::string text_of(const metadata::Identity& identity);

}  // namespace steelyard::sim
