// Revisions that are held for longer than one verb: a lease that is renewed, and reads at any offset.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "formats/stored_manifest.h"
#include "store/buffer_pool.h"
#include "store/context.h"
#include "store/lease_guard.h"
#include "store/stop_signal.h"

namespace steelyard::store {

/// Holds a lease of one revision, renews it, and gives it back in the end.
///
/// Thread-safety: may be used from any thread.
class HeldRevision {
 public:
  /// The errors of resolve() and LeaseGuard::acquire.
  static Result<std::unique_ptr<HeldRevision>> hold(Context& context, const Selector& selector,
                                                    const LeaseTerms& terms);

  /// As it was when the lease was taken.
  const metadata::RevisionRecord& record() const { return record_; }
  const std::string& lease_id() const { return lease_->lease_id(); }
  /// LEASE_EXPIRED, or NOT_READY, once nothing protects the revision any more.
  Status check() const;
  const StopSignal& stop() const { return stop_; }

 private:
  explicit HeldRevision(metadata::RevisionRecord record) : record_(std::move(record)) {}

  const CancelFlag never_{false};
  StopSignal stop_{never_};
  const metadata::RevisionRecord record_;
  std::unique_ptr<LeaseGuard> lease_;  // last: it tells stop_
};

/// A held revision with its manifest, to read at any offset.
///
/// Thread-safety: may be used from any thread; reads run beside each other as far as the buffers reach.
class OpenRevision {
 public:
  /// Those of HeldRevision::hold, and CORRUPT for a manifest that is not the record's.
  static Result<std::unique_ptr<OpenRevision>> open(Context& context, const Selector& selector, const LeaseTerms& terms,
                                                    std::shared_ptr<BufferPool> memory);

  const HeldRevision& held() const { return *held_; }
  const metadata::RevisionRecord& record() const { return held_->record(); }
  const std::shared_ptr<const formats::StoredManifest>& manifest() const { return manifest_; }

  /// Fills `into` with the file's bytes from `offset`, which must lie in it. Every block that is touched is checked
  /// whole; CORRUPT names file, object and block, and the first one of an object is recorded. `into` has no meaning
  /// after an error.
  Status read_file(const formats::FileEntry& file, std::uint64_t offset, ByteSpan into) const;
  /// The same for a place in a run; `what` names it in errors.
  Status read_place(const formats::TensorPlace& place, std::uint64_t offset, ByteSpan into,
                    std::string_view what) const;

 private:
  OpenRevision(Context& context, std::unique_ptr<HeldRevision> held, std::shared_ptr<BufferPool> memory)
      : context_(context), held_(std::move(held)), memory_(std::move(memory)) {}
  Status read(std::vector<formats::ObjectRange> segments, ByteSpan into, std::string_view what) const;
  /// Up to the first bad object, which it gives back.
  Result<std::optional<BadObject>> fill(std::vector<formats::ObjectRange> segments, ByteSpan into) const;
  /// Once for each object: a reader that goes on asking must not have the whole of it judged again each time.
  void report(const BadObject& bad) const;
  void report(const BadInMemory& bad) const;

  Context& context_;
  const std::unique_ptr<HeldRevision> held_;
  const std::shared_ptr<BufferPool> memory_;
  std::shared_ptr<const formats::StoredManifest> manifest_;
  HotReplicas hot_;  ///< as they lay there when it was opened
  mutable std::mutex mutex_;
  mutable std::set<std::uint32_t> reported_;
  mutable std::set<std::uint32_t> reported_in_memory_;
};

}  // namespace steelyard::store
