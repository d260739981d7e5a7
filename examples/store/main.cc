// store_example STORE SOURCE FILE: a checkpoint goes into a store, is listed, read, verified and deleted again.
//
// Ctrl-C during the import ends it between two blocks; the same command then goes on where it was.
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "steelyard/store.h"

namespace {

steelyard::Cancellation interrupted;
void on_interrupt(int /*signal*/) { interrupted.cancel(); }

/// The value, or the reason and the next step on stderr and the end of the program.
template <typename T>
T must(steelyard::Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "error: %s\nhint: %s\n", result.status().message().c_str(), result.status().hint().c_str());
  std::exit(1);
}

unsigned long long number(std::uint64_t value) { return value; }

steelyard::Revision import(const steelyard::Store& store, const std::string& source) {
  steelyard::ImportRequest request;
  request.source = source;
  request.labels = {{"origin", "example"}};
  steelyard::Hooks hooks;
  hooks.cancel = &interrupted;
  hooks.progress = [](const steelyard::Progress& progress) {
    std::fprintf(stderr, "%.*s: %llu of %llu bytes\n", static_cast<int>(progress.phase.size()), progress.phase.data(),
                 number(progress.bytes_done), number(progress.bytes_total));
  };
  const steelyard::ImportReport report = must(store.import(request, hooks));
  std::printf("imported %llu files, %llu tensors: %llu bytes written, %llu were stored already\n", number(report.files),
              number(report.tensors), number(report.written_bytes), number(report.reused_bytes));
  return report.revision;
}

void list(const steelyard::Store& store) {
  steelyard::ListQuery query;
  query.limit = 2;
  do {
    const steelyard::ListPage page = must(store.list(query));
    for (const steelyard::Revision& revision : page.revisions) {
      std::printf("%s %s %llu bytes\n", format_ref(revision.identity).c_str(),
                  std::string(name_of(revision.availability)).c_str(), number(revision.logical_bytes));
    }
    query.page_token = page.next_page_token;
  } while (!query.page_token.empty());
}

/// The file in pieces of a megabyte; every one is verified before it is given out.
std::size_t copy_out(const steelyard::Store& store, const steelyard::Ref& ref, const std::string& path,
                     const std::string& target) {
  const steelyard::File file = must(must(store.open_revision(ref)).open_file(path));
  std::FILE* out = std::fopen(target.c_str(), "wb");
  if (out == nullptr) return 0;
  std::vector<std::byte> piece(std::size_t{1} << 20);
  std::uint64_t done = 0;
  while (done < file.size()) {
    const std::size_t bytes = std::min<std::uint64_t>(piece.size(), file.size() - done);
    const steelyard::Status read = file.read(done, std::span(piece).first(bytes));
    if (!read.ok()) must(steelyard::Result<int>(read));
    if (std::fwrite(piece.data(), 1, bytes, out) != bytes) break;
    done += bytes;
  }
  return std::fclose(out) == 0 ? done : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: store_example STORE SOURCE FILE\n");
    return 2;
  }
  std::signal(SIGINT, on_interrupt);
  steelyard::StoreOptions options;
  options.path = argv[1];
  const steelyard::Store store = must(steelyard::Store::open(options, steelyard::OpenMode::kCreate));
  const steelyard::Revision revision = import(store, argv[2]);
  const steelyard::Ref ref = revision.identity.ref();
  list(store);

  const std::string copy = options.path + ".copy";
  std::printf("%s: %llu bytes in %s\n", argv[3], number(copy_out(store, ref, argv[3], copy)), copy.c_str());

  const steelyard::VerifyReport report = must(store.verify(ref));
  for (const steelyard::Problem& problem : report.problems) {
    std::printf("%s: file %s, object %s\n", std::string(name_of(problem.kind)).c_str(), problem.file.c_str(),
                problem.object.c_str());
  }
  std::printf("verified %llu bytes, %zu problems\n", number(report.checked_bytes), report.problems.size());

  {
    // Whoever reads holds a lease, and a delete says who it is.
    const steelyard::OpenRevision open = must(store.open_revision(ref, {.holder = "the example"}));
    std::printf("delete while it is read: %s\n", store.delete_revision(ref).status().message().c_str());
  }
  std::printf("deleted %s\n", format_ref(must(store.delete_revision(ref)).identity).c_str());
  return report.problems.empty() ? 0 : 1;
}
