// The log in SQLite: one file, written by several threads and processes (docs/formats/op-log.md).
//
// Write protocol of a group:
//   1. threads that want to write queue up; one of them leads, the others wait;
//   2. the leader takes the process's turn (Turnstile) and begins a transaction that excludes other writers, both under
//      one deadline, and notes that it writes (WriterNote);
//   3. it takes everybody who waits by now, and for each in order: prepares against the transaction's state, then puts
//      the log row and adds its changes to the tail (Tail), so that the next one sees them; one that fails leaves
//      nothing; where the tail has become long, its rows are put into the state table in the same transaction;
//   4. one COMMIT makes the whole group durable; only then does anybody get an answer;
//   5. where COMMIT fails, nobody knows what is on the disk: the connection is thrown away and a new one looks for the
//      group's last request id. Found: what was found is moved into the database and synced, which makes it durable
//      whatever the failed sync lost; the answer is success. Not found: a small transaction is committed over the place
//      in the WAL where a lost one would come back to life after a crash; the answer is that nothing was written. Where
//      this cannot be done the answer is UNKNOWN_OUTCOME.
//
// Fault points: log.turn, log.prepared, log.before_commit, log.commit, log.after_commit, log.reread, log.create.*,
// log.snapshot.*, log.trim, log.close.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "oplog/codec.h"
#include "oplog/op_log.h"
#include "oplog/open.h"
#include "oplog/sqlite/access.h"
#include "oplog/sqlite/connection.h"
#include "oplog/sqlite/place.h"
#include "oplog/sqlite/tail.h"
#include "oplog/sqlite/turnstile.h"
#include "oplog/sqlite/writer_note.h"

namespace steelyard::oplog::sqlite {

class SqliteLog final : public OpLog {
 public:
  static Result<std::unique_ptr<SqliteLog>> open(Runtime& runtime, const SqliteOptions& options,
                                                 const StateCodec& codec);
  ~SqliteLog() override;

  Result<std::uint64_t> write(const Prepare& prepare) override;
  Status view(const std::function<Status(const StateView& view)>& read) override;
  Result<std::vector<Append>> read(std::uint64_t after, std::size_t limit) override;
  Result<bool> watch(std::uint64_t after, std::int64_t deadline_mono_ms, const std::atomic<bool>* cancel) override;
  Result<std::uint64_t> save_snapshot() override;
  Result<std::string> newest_snapshot() override;
  Status trim(std::uint64_t sequence) override;
  Result<std::uint64_t> length() override;
  Status restore(const Snapshot& snapshot) override;
  Status check_place() const override { return place_.check(); }
  Capabilities capabilities() const override { return Capabilities{true, false, read_only_, "sqlite"}; }

  /// Makes the state tables again from the newest snapshot and the log.
  Status rebuild_state();

 private:
  /// A connection, and the appends that it has seen and that are not in the state table.
  struct Session {
    std::unique_ptr<Connection> connection;
    Tail tail;
  };
  using Body = std::function<Status(Session&)>;

  /// A thread that waits: with something to prepare, or with work of its own that fills a transaction alone.
  struct Waiter {
    const Prepare* prepare = nullptr;
    const Body* body = nullptr;
    std::shared_ptr<Event> event;
    int attempts = 0;
    bool done = false;  ///< guarded by queue_mutex_, as is `leads`
    bool leads = false;
    Status status;
    std::uint64_t sequence = 0;
    bool judged = false;    ///< `prepare` was called and its answer is in `status` and `sequence`
    bool appended = false;  ///< has rows in the open transaction
    bool depends = false;   ///< was judged by rows that are not durable yet
  };
  using Group = std::vector<std::shared_ptr<Waiter>>;
  /// The last append of a group: what to look for after an uncertain commit.
  struct LastAppend {
    std::uint64_t sequence = 0;
    std::string request_id;
  };

  SqliteLog(Runtime& runtime, SqliteOptions options, const StateCodec& codec);
  Status open_for_writing();
  Status open_for_reading();

  Status submit(const std::shared_ptr<Waiter>& waiter);
  void lead();
  Group take_group();
  void run_group(Group& group);
  /// Begins a writing transaction; at the deadline BUSY, naming who is in the way.
  Status begin_writing(Connection& connection, std::int64_t deadline_mono_ms,
                       const std::function<void()>& while_waiting);
  void warn_of_holder();
  Status fill_group(Session& session, const Group& group, LastAppend& last);
  Status prepare_one(Session& session, Waiter& waiter, std::uint64_t& sequence, LastAppend& last);
  Status commit_group(Session& session, const LastAppend& last);
  Status resolve(const LastAppend& last, const Status& failure);
  static void settle(const Group& group, const Status& outcome);
  /// Runs `body` alone in a transaction of its own, in turn.
  Status transact(const Body& body);

  Result<Session> acquire();
  void release(Session session);
  /// Runs `body` in a reading transaction, at the sequence given to it.
  Status read_transaction(const std::function<Status(Connection&, std::uint64_t sequence)>& body);
  /// The same for who reads the state.
  Status read_state(const std::function<Status(Connection&, const StateView& view)>& body);
  /// `body` sets `began` once it has read something: from then on an error is not one of access.
  using Reading = std::function<Status(Session&, bool& began)>;
  Status read_somehow(const Reading& body);
  Status read_once(const Reading& body, bool& began);
  Status use_private_copy();
  Status must_be_writable() const;

  Result<bool> put_snapshot_parts(std::int64_t id, const Snapshot& snapshot);
  Result<bool> read_back_snapshot(std::int64_t id, const Snapshot& snapshot);
  Result<std::uint64_t> complete_snapshot(std::int64_t id, std::uint64_t sequence);
  Result<std::int64_t> begin_snapshot(std::uint64_t sequence);

  Runtime& runtime_;
  const SqliteOptions options_;
  const StateCodec& codec_;
  bool read_only_ = false;
  const Place place_;
  Turnstile turnstile_;  ///< used by the one who leads, as are the next two
  WriterNote note_;
  std::optional<WriterNote::Holder> warned_of_;

  std::mutex queue_mutex_;  ///< guards the two below
  std::deque<std::shared_ptr<Waiter>> queue_;
  bool led_ = false;

  std::mutex pool_mutex_;  ///< guards the rest
  std::vector<Session> idle_;
  std::string open_path_;
  Connection::Mode mode_ = Connection::Mode::kReadWrite;
  std::shared_ptr<PrivateCopy> private_copy_;
  bool wrote_ = false;
};

}  // namespace steelyard::oplog::sqlite
