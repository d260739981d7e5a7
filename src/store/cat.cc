#include "store/cat.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "formats/ref.h"
#include "store/damage_record.h"
#include "store/file_segments.h"
#include "store/lease_guard.h"
#include "store/manifest_file.h"
#include "store/resolve.h"
#include "store/verified_reader.h"

namespace steelyard::store {
namespace {

struct ByteRange {
  std::uint64_t first = 0;
  std::uint64_t bytes = 0;
};

/// `--range START-END`, both inclusive; an end behind the file means to its end.
Result<ByteRange> range_in(const CatRequest& request, std::uint64_t file_bytes) {
  const std::uint64_t first = request.first.value_or(0);
  if (!request.first && !request.last) return ByteRange{0, file_bytes};
  if (first >= file_bytes || (request.last && *request.last < first)) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("range {}-{} is not in {}, which has {} bytes", first,
                    request.last ? fmt::format("{}", *request.last) : "", printable(request.path), file_bytes),
        "the range is START-END, both inclusive, counted from 0");
  }
  const std::uint64_t last = std::min(request.last.value_or(file_bytes - 1), file_bytes - 1);
  return ByteRange{first, last - first + 1};
}

}  // namespace

Status run_cat(Context& context, const CatRequest& request, const std::function<Status(ByteView)>& sink,
               const CancelFlag& cancel) {
  const Purpose purpose = request.allow_degraded ? Purpose::kReadDegraded : Purpose::kRead;
  SY_ASSIGN_OR_RETURN(const metadata::RevisionRecord record, resolve(context.catalog, request.source, purpose));
  StopSignal stop(cancel);
  SY_ASSIGN_OR_RETURN(const auto lease,
                      LeaseGuard::acquire(context, record, {.allow_degraded = request.allow_degraded}, stop));
  auto loaded = load_manifest(context.cold, record);
  if (loaded.code() == Code::kCorrupt) {
    SY_RETURN_IF_ERROR(check_not_deleted(context, record));
    record_bad_manifest(context, record, stop);
  }
  SY_ASSIGN_OR_RETURN(const formats::StoredManifest manifest, std::move(loaded));
  const formats::FileEntry* file = find_file(manifest, request.path);
  if (file == nullptr) {
    const std::string ref = formats::format_ref(record.identity);
    return {Code::kNotFound, fmt::format("{} has no file {}", ref, printable(request.path)),
            fmt::format("`steelyard inspect --files {}` lists its files", ref)};
  }
  SY_ASSIGN_OR_RETURN(const ByteRange range, range_in(request, file->bytes));

  SY_ASSIGN_OR_RETURN(ReadBuffers buffers, ReadBuffers::allocate(read_piece_bytes(context.io_budget, 1)));
  const HotReplicas hot = open_hot_to_read(context, record, manifest, stop);
  VerifiedReader reader(context.cold, attempt_of(record), manifest.objects,
                        segments_of(manifest, *file, range.first, range.bytes), buffers, &hot);
  const auto copy = [&]() -> Status {
    VerifiedReader::Piece piece;
    for (;;) {
      SY_RETURN_IF_ERROR(stop.status("cat"));
      SY_ASSIGN_OR_RETURN(const bool more, reader.next(piece));
      if (!more) return {};
      if (piece.bad) {
        SY_RETURN_IF_ERROR(check_not_deleted(context, record));
        record_bad_objects(context, record, manifest, {&*piece.bad, 1}, stop);
        return to_status(*piece.bad, record.identity).annotate("reading", printable(file->path));
      }
      SY_RETURN_IF_ERROR(sink(piece.bytes));
    }
  };
  Status copied = copy();
  record_bad_in_memory(context, record, reader.bad_in_memory(), stop);
  return copied;
}

}  // namespace steelyard::store
