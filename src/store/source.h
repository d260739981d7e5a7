// Source: where an import reads from. A real folder or file; memory in a simulation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "formats/checkpoint.h"

namespace steelyard::store {

/// One open file of the source. Used by one thread at a time.
class OpenSource {
 public:
  virtual ~OpenSource() = default;
  /// Fills `into` from `offset`. CORRUPT, naming the file, when it ends earlier or has changed.
  virtual Status read(std::uint64_t offset, ByteSpan into) = 0;
  /// CORRUPT "changed while it was read" unless the file is still what the scan saw.
  virtual Status check_unchanged() = 0;
};

/// Thread-safe.
class Source {
 public:
  virtual ~Source() = default;
  virtual const std::vector<formats::SourceFile>& files() const = 0;
  /// `path` is one of files().
  virtual Result<std::unique_ptr<OpenSource>> open(const std::string& path) = 0;
  /// Facts for the manifest: kind, path, and a hub snapshot's repository and commit.
  virtual std::vector<std::pair<std::string, std::string>> facts() const = 0;
};

/// Scans a real source (store/source_folder.h). In a cgroup with little memory what it brings into the page cache is
/// dropped behind the reader.
Result<std::unique_ptr<Source>> open_source(const std::string& path, bool follow_links);

/// Reads small pieces for plan_checkpoint; keeps the last file open.
formats::SourceReader reader_of(Source& source);

}  // namespace steelyard::store
