#include "oplog/sqlite/sqlite_log.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/log.h"
#include "base/units.h"
#include "base/utf8.h"
#include "oplog/log_row.h"
#include "oplog/sqlite/filesystem.h"
#include "oplog/sqlite/layout.h"
#include "oplog/sqlite/rows.h"
#include "oplog/sqlite/wal_watch.h"

namespace steelyard::oplog::sqlite {
namespace {

/// What became of a commit is asked for patiently: the answer would be UNKNOWN_OUTCOME.
constexpr std::int64_t kResolveWaitMs = 60'000;
/// BEGIN IMMEDIATE is tried again after each of these.
constexpr std::int64_t kBeginStepMs = 500;
/// How long making a found append durable waits for readers.
constexpr int kCheckpointWaitMs = 10'000;
/// A group is bounded so that its first member does not wait for ever for its answer.
constexpr std::size_t kGroupMax = 128;
/// A command whose basis was rolled back is prepared again so often.
constexpr int kAttemptsMax = 3;
constexpr std::size_t kIdleConnectionsMax = 4;
constexpr std::int64_t kLongWaitMs = 3'600'000;

std::string folder_of(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// Its name without its extension.
std::string base_of(const std::string& path) { return std::filesystem::path(path).stem().string(); }

std::string named(const ProcessIdentity& process) {
  return printable(process.host) + " (pid " + std::to_string(process.pid) + ")";
}

/// A failure before anything could have been committed.
Status not_written(const Status& failure) {
  switch (failure.code()) {
    case Code::kCorrupt:
    case Code::kNoSpace:
    case Code::kBusy:
    case Code::kUnauthorized:
    case Code::kInvalidArgument:
      return failure;
    default:
      return Status(Code::kDurabilityFailed, "the change was not written: " + failure.message(), failure.hint());
  }
}

}  // namespace

SqliteLog::SqliteLog(Runtime& runtime, SqliteOptions options, const StateCodec& codec)
    : runtime_(runtime),
      options_(std::move(options)),
      codec_(codec),
      place_(options_.path),
      turnstile_(runtime, place_.folder(), base_of(options_.path),
                 std::min(Turnstile::kWaitMs, options_.write_wait_ms / 2)),
      note_(runtime, place_.folder(), base_of(options_.path)),
      open_path_(options_.path) {}

Result<std::unique_ptr<SqliteLog>> SqliteLog::open(Runtime& runtime, const SqliteOptions& options,
                                                   const StateCodec& codec) {
  SY_RETURN_IF_ERROR(check_filesystem(folder_of(options.path)));
  Status files = check_files(options.path);
  if (files.code() == Code::kNotFound && options.create && !options.read_only) {
    SY_RETURN_IF_ERROR(create_database(runtime, options.path, options.store_id));
    files = check_files(options.path);
  }
  SY_RETURN_IF_ERROR(std::move(files));
  std::unique_ptr<SqliteLog> log(new SqliteLog(runtime, options, codec));
  log->read_only_ = options.read_only || !may_write(options.path);
  SY_RETURN_IF_ERROR(log->read_only_ ? log->open_for_reading() : log->open_for_writing());
  return log;
}

Status SqliteLog::open_for_writing() {
  SY_ASSIGN_OR_RETURN(Session session, acquire());
  SY_RETURN_IF_ERROR(check_database(*session.connection, options_.store_id));
  SY_ASSIGN_OR_RETURN(const bool ours, state_schema_is_ours(*session.connection));
  release(std::move(session));
  return ours ? Status() : rebuild_state();
}

Status SqliteLog::open_for_reading() {
  mode_ = Connection::Mode::kReadOnly;
  const auto check = [this](Connection& connection, std::uint64_t) -> Status {
    SY_RETURN_IF_ERROR(check_database(connection, options_.store_id));
    SY_ASSIGN_OR_RETURN(const bool ours, state_schema_is_ours(connection));
    if (ours) return Status();
    return Status(Code::kUnavailable, options_.path + ": the state tables have an older schema",
                  "open the store once with write permission; that brings them up to date");
  };
  return read_transaction(check);
}

SqliteLog::~SqliteLog() {
  if (read_only_ || !wrote_) return;
  // A clean close leaves one whole file and an empty WAL. Others may be in the way; then one of them does it.
  if (auto session = acquire(); session.ok()) {
    SY_POINT(runtime_, "log.close");
    session->connection->checkpoint(true, 0).ignore("the WAL holds everything");
  }
}

// Connections

Result<SqliteLog::Session> SqliteLog::acquire() {
  std::string path;
  Connection::Mode mode{};
  {
    const std::lock_guard lock(pool_mutex_);
    if (!idle_.empty()) {
      Session session = std::move(idle_.back());
      idle_.pop_back();
      return session;
    }
    path = open_path_;
    mode = mode_;
  }
  Session session;
  auto opened = Connection::open(path, mode);
  SY_RETURN_IF_ERROR(place_.check());  // after it: another store may lie there now
  SY_ASSIGN_OR_RETURN(session.connection, std::move(opened));
  return session;
}

void SqliteLog::release(Session session) {
  const std::lock_guard lock(pool_mutex_);
  if (idle_.size() >= kIdleConnectionsMax || session.connection->path() != open_path_) return;
  idle_.push_back(std::move(session));
}

Status SqliteLog::use_private_copy() {
  SY_ASSIGN_OR_RETURN(const bool read_only_mount, is_read_only_mount(folder_of(options_.path)));
  std::error_code error;
  const auto wal_bytes = std::filesystem::file_size(options_.path + "-wal", error);
  std::vector<Session> old;
  if (read_only_mount && (error || wal_bytes == 0)) {
    // Nobody can change the file, and it is whole without a WAL.
    const std::lock_guard lock(pool_mutex_);
    old.swap(idle_);
    open_path_ = options_.path;
    mode_ = Connection::Mode::kImmutable;
    return Status();
  }
  SY_ASSIGN_OR_RETURN(std::shared_ptr<PrivateCopy> copy, PrivateCopy::make(runtime_, options_.path));
  const std::lock_guard lock(pool_mutex_);
  old.swap(idle_);
  open_path_ = copy->path();
  mode_ = Connection::Mode::kReadWrite;
  private_copy_ = std::move(copy);
  return Status();
}

Status SqliteLog::read_once(const Reading& body, bool& began) {
  std::shared_ptr<PrivateCopy> keep;  // what is being read stays, even if another thread makes a newer copy
  {
    const std::lock_guard lock(pool_mutex_);
    keep = private_copy_;
  }
  if (keep != nullptr && keep->is_stale()) {
    SY_RETURN_IF_ERROR(place_.check());
    SY_RETURN_IF_ERROR(use_private_copy());
    const std::lock_guard lock(pool_mutex_);
    keep = private_copy_;
  }
  SY_ASSIGN_OR_RETURN(Session session, acquire());
  SY_RETURN_IF_ERROR(session.connection->begin_read());
  Status status = body(session, began);
  session.connection->rollback();
  if (began) release(std::move(session));
  return status;
}

Status SqliteLog::read_somehow(const Reading& body) {
  bool began = false;
  Status status = read_once(body, began);
  if (!read_only_ || began || private_copy_ != nullptr) return status;
  // Beside the writers it does not go: SQLite may not make or map the files that it shares with them.
  if (status.code() != Code::kUnavailable && status.code() != Code::kUnauthorized && status.code() != Code::kBusy) {
    return status;
  }
  SY_RETURN_IF_ERROR(use_private_copy());
  return read_once(body, began);
}

Status SqliteLog::read_transaction(const std::function<Status(Connection&, std::uint64_t)>& body) {
  return read_somehow([&](Session& session, bool& began) -> Status {
    SY_ASSIGN_OR_RETURN(const std::uint64_t sequence, current_sequence(*session.connection));
    began = true;
    return body(*session.connection, sequence);
  });
}

Status SqliteLog::read_state(const std::function<Status(Connection&, const StateView&)>& body) {
  return read_somehow([&](Session& session, bool& began) -> Status {
    SY_ASSIGN_OR_RETURN(const std::uint64_t sequence, session.tail.follow(*session.connection, codec_));
    began = true;
    const SqliteView table(*session.connection, sequence);
    return body(*session.connection, metadata::LayeredView(table, session.tail.changes(), sequence));
  });
}

// Writing

Status SqliteLog::must_be_writable() const {
  if (!read_only_) return Status();
  return Status(Code::kUnauthorized, options_.path + ": the catalog is open read only",
                options_.read_only ? "open the store for writing" : "give write permission on the store's folder");
}

Result<std::uint64_t> SqliteLog::write(const Prepare& prepare) {
  auto waiter = std::make_shared<Waiter>();
  waiter->prepare = &prepare;
  SY_RETURN_IF_ERROR(submit(waiter));
  return waiter->sequence;
}

Status SqliteLog::transact(const Body& body) {
  auto waiter = std::make_shared<Waiter>();
  waiter->body = &body;
  return submit(waiter);
}

Status SqliteLog::submit(const std::shared_ptr<Waiter>& waiter) {
  SY_RETURN_IF_ERROR(must_be_writable());
  bool leads = false;
  {
    const std::lock_guard lock(queue_mutex_);
    leads = !led_;
    led_ = true;
    if (!leads) waiter->event = runtime_.make_event();
    queue_.push_back(waiter);
  }
  while (true) {
    if (leads) {
      lead();
      leads = false;
    }
    std::shared_ptr<Event> event;
    {
      const std::lock_guard lock(queue_mutex_);
      if (waiter->done) return waiter->status;
      if (std::exchange(waiter->leads, false)) {
        leads = true;
        continue;
      }
      if (waiter->event == nullptr) waiter->event = runtime_.make_event();
      event = waiter->event;
    }
    while (!event->wait_until(runtime_.mono_ms() + kLongWaitMs)) {
    }
    const std::lock_guard lock(queue_mutex_);
    waiter->event.reset();
  }
}

void SqliteLog::lead() {
  Group group;
  run_group(group);
  std::vector<std::shared_ptr<Event>> woken;
  {
    const std::lock_guard lock(queue_mutex_);
    for (auto it = group.rbegin(); it != group.rend(); ++it) {
      if ((*it)->depends) {  // its basis was rolled back
        (*it)->depends = false;
        queue_.push_front(*it);
      } else {
        (*it)->done = true;
        if ((*it)->event != nullptr) woken.push_back((*it)->event);
      }
    }
    if (queue_.empty()) {
      led_ = false;
    } else {
      queue_.front()->leads = true;
      if (queue_.front()->event != nullptr) woken.push_back(queue_.front()->event);
    }
  }
  for (const auto& event : woken) event->set();
}

SqliteLog::Group SqliteLog::take_group() {
  const std::lock_guard lock(queue_mutex_);
  Group group;
  while (!queue_.empty() && group.size() < kGroupMax) {
    const bool alone = queue_.front()->body != nullptr;
    if (alone && !group.empty()) break;
    group.push_back(std::move(queue_.front()));
    queue_.pop_front();
    if (alone) break;
  }
  return group;
}

void SqliteLog::run_group(Group& group) {
  const std::int64_t began = runtime_.mono_ms();
  bool quiet = true;
  const auto warn_in_time = [&] {
    if (!quiet || runtime_.mono_ms() < began + options_.warn_after_ms) return;
    quiet = false;
    warn_of_holder();
  };
  turnstile_.enter(warn_in_time);
  SY_POINT(runtime_, "log.turn");
  Status begun = place_.check();
  auto opened = begun.ok() ? acquire() : Result<Session>(begun);
  begun =
      opened.ok() ? begin_writing(*opened->connection, began + options_.write_wait_ms, warn_in_time) : opened.status();
  group = take_group();
  if (!begun.ok()) {
    turnstile_.leave();
    settle(group, not_written(begun));
    return;
  }
  note_.put();
  Session session = std::move(*opened);
  LastAppend last;
  Status outcome = fill_group(session, group, last);
  if (!outcome.ok()) {
    session.connection->rollback();
    session.tail.clear();
    if (group.front()->body == nullptr) outcome = not_written(outcome);
  } else if (last.sequence == 0 && group.front()->body == nullptr) {
    session.connection->rollback();  // nothing to write
  } else {
    outcome = commit_group(session, last);
  }
  note_.take_back();
  turnstile_.leave();
  if (session.connection != nullptr) release(std::move(session));
  settle(group, outcome);
}

Status SqliteLog::begin_writing(Connection& connection, std::int64_t deadline_mono_ms,
                                const std::function<void()>& while_waiting) {
  while (true) {
    const std::int64_t left_ms = std::max<std::int64_t>(0, deadline_mono_ms - runtime_.mono_ms());
    Status status = connection.begin_immediate(static_cast<int>(std::min(kBeginStepMs, left_ms)));
    if (status.code() != Code::kBusy) return status;
    if (runtime_.mono_ms() >= deadline_mono_ms) {
      const auto holder = note_.find_holder();
      if (!holder) return status;
      const std::string pid = std::to_string(holder->process.pid);
      return {Code::kBusy,
              options_.path + ": " + named(holder->process) + " has been writing for " +
                  format_age(runtime_.mono_ms() - holder->since_mono_ms) + " and does not end",
              "on that host, let it go on (kill -CONT " + pid + ") or end it (kill -KILL " + pid + "), then try again"};
    }
    while_waiting();
    runtime_.sleep_ms(1);  // BUSY may also come at once
  }
}

void SqliteLog::warn_of_holder() {
  const auto holder = note_.find_holder();
  if (holder && holder == warned_of_) return;
  warned_of_ = holder;
  if (holder) {
    log_warning("{}: waiting for {}, which has been writing for {}", options_.path, named(holder->process),
                format_age(runtime_.mono_ms() - holder->since_mono_ms));
  } else {
    log_warning("{}: waiting for another process, which does not say who it is", options_.path);
  }
}

/// Gives everybody in the group the answer. Those that were judged by rows which are not there now are judged again.
void SqliteLog::settle(const Group& group, const Status& outcome) {
  for (const auto& waiter : group) {
    if (outcome.ok()) {
      waiter->depends = false;
      continue;
    }
    if (waiter->depends && !waiter->appended && ++waiter->attempts < kAttemptsMax) {
      waiter->status = Status();
      waiter->judged = false;
      continue;
    }
    const bool stands = waiter->judged && !waiter->appended && !waiter->depends;
    waiter->depends = false;
    if (!stands) waiter->status = outcome;
  }
}

Status SqliteLog::fill_group(Session& session, const Group& group, LastAppend& last) {
  {
    const std::lock_guard lock(pool_mutex_);
    wrote_ = true;
  }
  if (group.front()->body != nullptr) {
    session.tail.unfollow();
    return (*group.front()->body)(session);
  }
  SY_ASSIGN_OR_RETURN(std::uint64_t sequence, session.tail.follow(*session.connection, codec_));
  for (const auto& waiter : group) SY_RETURN_IF_ERROR(prepare_one(session, *waiter, sequence, last));
  if (last.sequence != 0 && session.tail.is_due()) SY_RETURN_IF_ERROR(session.tail.fold(*session.connection));
  SY_POINT(runtime_, "log.prepared");
  return Status();
}

/// An error here ends the whole group; the waiter's own error goes into the waiter.
Status SqliteLog::prepare_one(Session& session, Waiter& waiter, std::uint64_t& sequence, LastAppend& last) {
  waiter.judged = true;
  waiter.appended = false;
  waiter.depends = last.sequence != 0;
  waiter.status = Status();
  waiter.sequence = sequence;
  const SqliteView table(*session.connection, sequence, &session.tail.table_rows());
  const metadata::LayeredView view(table, session.tail.changes(), sequence);
  Append append;
  append.at = Now{runtime_.epoch(), runtime_.mono_ms(), runtime_.wall_ms()};
  auto entries = (*waiter.prepare)(view, append.at);
  if (!entries.ok()) {
    waiter.status = std::move(entries).status();
    return Status();
  }
  if (entries->empty()) return Status();
  append.entries = std::move(*entries);
  std::vector<metadata::RowChange> changes;
  for (const Entry& entry : append.entries) {
    auto some = codec_.changes_of(entry);
    if (!some.ok()) {
      waiter.status = std::move(some).status();
      return Status();
    }
    changes.insert(changes.end(), std::make_move_iterator(some->begin()), std::make_move_iterator(some->end()));
  }
  auto batch = encode_batch(append);
  if (!batch.ok()) {
    waiter.status = std::move(batch).status();
    return Status();
  }
  std::string request_id(kRequestIdBytes, '\0');
  runtime_.fill_random({reinterpret_cast<std::byte*>(request_id.data()), request_id.size()});
  waiter.appended = true;
  waiter.sequence = ++sequence;
  SY_RETURN_IF_ERROR(put_append(*session.connection, sequence, request_id, *batch));
  session.tail.add(sequence, request_id, std::move(changes));
  last = LastAppend{sequence, std::move(request_id)};
  return Status();
}

Status SqliteLog::commit_group(Session& session, const LastAppend& last) {
  if (const int error = runtime_.point("log.before_commit"); error != 0) {
    session.connection->rollback();
    session.tail.clear();
    return not_written(errno_status(error, "commit", options_.path));
  }
  Status committed = session.connection->commit();
  if (const int error = runtime_.point("log.commit"); error != 0 && committed.ok()) {
    committed = errno_status(error, "commit", options_.path);
  }
  if (!committed.ok()) {
    session = Session();
    committed = resolve(last, committed);
  }
  SY_POINT(runtime_, "log.after_commit");
  return committed;
}

Status SqliteLog::resolve(const LastAppend& last, const Status& failure) {
  const auto unknown = [&](const Status& why) {
    return Status(
        Code::kUnknownOutcome,
        "the commit failed (" + failure.message() + ") and what became of it cannot be read: " + why.message(),
        "check the store's disk, then look whether the change is there before trying again");
  };
  if (const int error = runtime_.point("log.reread"); error != 0) {
    return unknown(errno_status(error, "read", options_.path));
  }
  auto opened = Connection::open(options_.path, Connection::Mode::kReadWrite);
  if (!opened.ok()) return unknown(opened.status());
  if (const Status gone = place_.check(); !gone.ok()) return unknown(gone);
  Connection& connection = **opened;
  const std::int64_t deadline = runtime_.mono_ms() + kResolveWaitMs;
  if (Status begun = begin_writing(connection, deadline, [] {}); !begun.ok()) return unknown(begun);
  bool found = false;
  if (last.sequence != 0) {
    const auto base = base_sequence(connection);
    if (!base.ok()) return unknown(base.status());
    const auto request_id = find_request_id(connection, last.sequence);
    if (!request_id.ok()) return unknown(request_id.status());
    if (!request_id->has_value() && *base >= last.sequence) {
      return unknown(Status(Code::kNotFound, "the log was trimmed past it"));
    }
    found = *request_id == last.request_id;
  }
  if (found) {
    connection.rollback();
    Status moved = connection.checkpoint(false, kCheckpointWaitMs);
    if (!moved.ok()) return unknown(moved);
    release(Session{std::move(*opened), {}});
    return Status();
  }
  Status fenced = connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'fence'");
  if (fenced.ok()) fenced = connection.commit();
  // Without space the commit's last frame, which makes it one, was never written.
  const bool certain = fenced.ok() || (failure.code() == Code::kNoSpace && fenced.code() == Code::kNoSpace);
  if (!certain) return unknown(fenced);
  if (last.sequence == 0) return unknown(failure);
  return not_written(failure);
}

// Reading

Status SqliteLog::view(const std::function<Status(const StateView&)>& read) {
  return read_state([&](Connection&, const StateView& view) { return read(view); });
}

Result<std::vector<Append>> SqliteLog::read(std::uint64_t after, std::size_t limit) {
  std::vector<Append> out;
  SY_RETURN_IF_ERROR(read_transaction([&](Connection& connection, std::uint64_t) -> Status {
    SY_ASSIGN_OR_RETURN(out, read_appends(connection, after, limit));
    return Status();
  }));
  return out;
}

Result<bool> SqliteLog::watch(std::uint64_t after, std::int64_t deadline_mono_ms, const std::atomic<bool>* cancel) {
  WalWatch watch(runtime_, options_.path);
  while (true) {
    SY_RETURN_IF_ERROR(place_.check());
    std::uint64_t now_at = 0;
    SY_RETURN_IF_ERROR(read_transaction([&](Connection&, std::uint64_t sequence) {
      now_at = sequence;
      return Status();
    }));
    if (now_at > after) return true;
    if (runtime_.mono_ms() >= deadline_mono_ms || (cancel != nullptr && cancel->load())) return false;
    watch.wait(deadline_mono_ms, cancel);
  }
}

}  // namespace steelyard::oplog::sqlite

namespace steelyard::oplog {

Result<std::unique_ptr<OpLog>> open_sqlite(Runtime& runtime, const SqliteOptions& options, const StateCodec& codec) {
  SY_ASSIGN_OR_RETURN(std::unique_ptr<OpLog> log, sqlite::SqliteLog::open(runtime, options, codec));
  return log;
}

Status rebuild_sqlite_state(Runtime& runtime, const SqliteOptions& options, const StateCodec& codec) {
  SY_ASSIGN_OR_RETURN(const auto log, sqlite::SqliteLog::open(runtime, options, codec));
  return log->rebuild_state();
}

}  // namespace steelyard::oplog
