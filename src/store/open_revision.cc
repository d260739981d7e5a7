#include "store/open_revision.h"

#include <cstring>

#include "base/utf8.h"
#include "store/damage_record.h"
#include "store/file_segments.h"
#include "store/manifest_file.h"
#include "store/resolve.h"

namespace steelyard::store {

Result<std::unique_ptr<HeldRevision>> HeldRevision::hold(Context& context, const Selector& selector,
                                                         const LeaseTerms& terms) {
  const Purpose purpose = terms.allow_degraded ? Purpose::kReadDegraded : Purpose::kRead;
  SY_ASSIGN_OR_RETURN(metadata::RevisionRecord record, resolve(context.catalog, selector, purpose));
  std::unique_ptr<HeldRevision> held(new HeldRevision(std::move(record)));
  SY_ASSIGN_OR_RETURN(held->lease_, LeaseGuard::acquire(context, held->record_, terms, held->stop_));
  return held;
}

Status HeldRevision::check() const {
  SY_RETURN_IF_ERROR(lease_->check());
  return stop_.status("the lease");
}

Result<std::unique_ptr<OpenRevision>> OpenRevision::open(Context& context, const Selector& selector,
                                                         const LeaseTerms& terms, std::shared_ptr<BufferPool> memory) {
  SY_ASSIGN_OR_RETURN(auto held, HeldRevision::hold(context, selector, terms));
  std::unique_ptr<OpenRevision> open(new OpenRevision(context, std::move(held), std::move(memory)));
  auto manifest = load_manifest(context.cold, open->record());
  if (manifest.code() == Code::kCorrupt) {
    SY_RETURN_IF_ERROR(check_not_deleted(context, open->record()));
    record_bad_manifest(context, open->record(), open->held_->stop());
  }
  SY_ASSIGN_OR_RETURN(formats::StoredManifest read, std::move(manifest));
  open->manifest_ = std::make_shared<const formats::StoredManifest>(std::move(read));
  open->hot_ = open_hot_to_read(context, open->record(), *open->manifest_, open->held_->stop());
  return open;
}

Status OpenRevision::read_file(const formats::FileEntry& file, std::uint64_t offset, ByteSpan into) const {
  return read(segments_of(*manifest_, file, offset, into.size()), into, printable(file.path));
}

Status OpenRevision::read_place(const formats::TensorPlace& place, std::uint64_t offset, ByteSpan into,
                                std::string_view what) const {
  return read(formats::ranges_of(manifest_->runs[place.run], place.offset + offset, into.size()), into, what);
}

Status OpenRevision::read(std::vector<formats::ObjectRange> segments, ByteSpan into, std::string_view what) const {
  SY_RETURN_IF_ERROR(held_->check());
  if (into.empty()) return {};
  SY_ASSIGN_OR_RETURN(const auto bad, fill(std::move(segments), into));
  if (!bad) return {};
  SY_RETURN_IF_ERROR(check_not_deleted(context_, record()));
  report(*bad);
  return to_status(*bad, record().identity).annotate("reading", what);
}

Result<std::optional<BadObject>> OpenRevision::fill(std::vector<formats::ObjectRange> segments, ByteSpan into) const {
  SY_ASSIGN_OR_RETURN(BufferPool::Loan loan, memory_->borrow());
  VerifiedReader reader(context_.cold, attempt_of(record()), manifest_->objects, std::move(segments), loan.buffers(),
                        &hot_);
  VerifiedReader::Piece piece;
  for (;;) {
    SY_RETURN_IF_ERROR(held_->check());
    SY_ASSIGN_OR_RETURN(const bool more, reader.next(piece));
    if (!more || piece.bad) break;
    std::memcpy(into.data(), piece.bytes.data(), piece.bytes.size());
    into = into.subspan(piece.bytes.size());
  }
  report(reader.bad_in_memory());
  return std::move(piece.bad);
}

void OpenRevision::report(const BadObject& bad) const {
  if (!bad.read_error.ok()) return;
  {
    const std::lock_guard lock(mutex_);
    if (!reported_.insert(bad.object).second) return;
  }
  record_bad_objects(context_, record(), *manifest_, {&bad, 1}, held_->stop());
}

void OpenRevision::report(const BadInMemory& bad) const {
  BadInMemory news;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [object, bytes] : bad) {
      if (reported_in_memory_.insert(object).second) news.emplace(object, bytes);
    }
  }
  record_bad_in_memory(context_, record(), news, held_->stop());
}

}  // namespace steelyard::store
