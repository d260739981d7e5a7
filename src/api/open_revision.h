// What the handles of one held revision keep. Internal.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "api/internals.h"
#include "steelyard/store.h"
#include "store/open_revision.h"

namespace steelyard {

/// A piece of a run that is a piece of a file.
struct FilePiece {
  std::uint32_t run = 0;
  std::uint64_t offset = 0;  ///< in the run
  std::uint64_t bytes = 0;
  std::size_t file = 0;
  std::uint64_t file_offset = 0;
};

struct OpenRevision::Impl {
  std::shared_ptr<const void> store;  ///< outlives the rest
  std::unique_ptr<store::OpenRevision> core;
  Revision revision;
  std::vector<FileInfo> files;
  std::vector<FilePiece> pieces;  ///< by place in their run
};

struct File::Impl {
  std::shared_ptr<const OpenRevision::Impl> revision;
  std::size_t index = 0;
};

struct HeldLease::Impl {
  std::shared_ptr<const void> store;  ///< outlives the rest
  std::unique_ptr<store::HeldRevision> core;
  Revision revision;
};

/// Where the files of a manifest lie in its runs.
std::vector<FilePiece> pieces_of(const formats::StoredManifest& manifest);

}  // namespace steelyard
