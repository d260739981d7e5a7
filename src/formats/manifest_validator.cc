// The rules of a stored manifest beyond its spelling: docs/formats/manifest.md, "Rules".
#include <algorithm>

#include "base/checked.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "formats/checkpoint_files.h"
#include "formats/manifest_fields.h"
#include "formats/safetensors.h"
#include "formats/stored_manifest.h"
#include "geometry/box.h"

namespace steelyard::formats {
namespace {

using Problem = std::optional<std::string>;

std::string element(std::string_view list, std::size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

Problem differs(const std::string& path, std::uint64_t found, std::uint64_t wanted, std::string_view why) {
  if (found == wanted) return {};
  return path + ": found " + std::to_string(found) + "; wanted " + std::to_string(wanted) + ", " + std::string(why);
}

Problem bad_utf8(std::string_view path, std::string_view text) {
  if (is_valid_utf8(text)) return {};
  return std::string(path) + ": found " + in_quotes(text) + "; wanted valid UTF-8";
}

class Validator {
 public:
  explicit Validator(const StoredManifest& manifest) : manifest_(manifest) {}

  Problem run() {
    for (const auto step : {&Validator::head, &Validator::source, &Validator::runs, &Validator::objects,
                            &Validator::files, &Validator::tensors, &Validator::fragments}) {
      if (Problem problem = (this->*step)()) return problem;
    }
    return {};
  }

 private:
  static Problem chunk_size(const std::string& path, std::uint64_t bytes) {
    if (bytes >= limits::kChunkBytesMin && bytes <= limits::kChunkBytesMax && bytes % limits::kBlockBytes == 0) {
      return {};
    }
    return path + ": found " + std::to_string(bytes) + "; wanted a multiple of " + std::to_string(limits::kBlockBytes) +
           " up to " + std::to_string(limits::kChunkBytesMax);
  }

  Problem head() {
    if (Status status = validate(manifest_.identity); !status.ok()) return "identity: " + status.message();
    if (manifest_.created_at_ms < 0 || manifest_.created_at_ms > manifest_fields::kCreatedAtMsMax) {
      return "created_at: found " + std::to_string(manifest_.created_at_ms) +
             " ms since 1970; wanted the years 1970 to 9999";
    }
    return chunk_size("chunk_bytes", manifest_.chunk_bytes);
  }

  Problem source() {
    const auto& facts = manifest_.source;
    if (facts.size() > limits::kSourceFactsMax) {
      return "source: found " + std::to_string(facts.size()) + " facts; wanted at most " +
             std::to_string(limits::kSourceFactsMax);
    }
    for (std::size_t i = 0; i < facts.size(); ++i) {
      const std::string path = "source[" + in_quotes(facts[i].first) + "]";
      if (i > 0 && facts[i - 1].first >= facts[i].first) return path + ": wanted names sorted and without repetition";
      if (Problem problem = bad_utf8(path, facts[i].first)) return problem;
      if (Problem problem = bad_utf8(path, facts[i].second)) return problem;
    }
    return {};
  }

  Problem runs() {
    std::uint64_t next_object = 0;
    for (std::size_t i = 0; i < manifest_.runs.size(); ++i) {
      const Run& run = manifest_.runs[i];
      const std::string path = element("runs", i);
      if (Problem problem = chunk_size(path + ".chunk_bytes", run.chunk_bytes)) return problem;
      if (Problem problem =
              differs(path + ".first_object", run.first_object, next_object, "since runs take consecutive objects")) {
        return problem;
      }
      if (Problem problem = differs(path + ".objects", run.objects, div_ceil(run.bytes, run.chunk_bytes),
                                    "the run's bytes cut into chunks")) {
        return problem;
      }
      next_object += run.objects;
      if (next_object > manifest_.objects.size()) {
        return path + ": takes objects up to " + std::to_string(next_object) + ", but the manifest holds " +
               std::to_string(manifest_.objects.size());
      }
    }
    return differs("objects", manifest_.objects.size(), next_object, "the sum of all runs' objects");
  }

  Problem objects() {
    if (manifest_.objects.size() > limits::kManifestObjectsMax) {
      return "objects: found " + std::to_string(manifest_.objects.size()) + "; wanted at most " +
             std::to_string(limits::kManifestObjectsMax);
    }
    for (const Run& run : manifest_.runs) {
      for (std::uint32_t k = 0; k < run.objects; ++k) {
        const std::size_t index = std::size_t{run.first_object} + k;
        const ObjectEntry& object = manifest_.objects[index];
        const std::uint64_t wanted = std::min(run.chunk_bytes, run.bytes - k * run.chunk_bytes);
        if (object.bytes != wanted) {
          return differs(element("objects", index) + ".bytes", object.bytes, wanted, "its share of the run");
        }
        const std::uint64_t blocks = div_ceil(wanted, limits::kBlockBytes);
        if (object.blocks.size() != blocks) {
          return differs(element("objects", index) + ".blocks", object.blocks.size(), blocks,
                         "one checksum for each started MiB");
        }
      }
    }
    return {};
  }

  /// [offset, offset + bytes) lies inside run `run`.
  Problem place(const std::string& path, std::uint32_t run, std::uint64_t offset, std::uint64_t bytes) const {
    if (run >= manifest_.runs.size()) {
      return path + ".run: found " + std::to_string(run) + "; wanted less than " +
             std::to_string(manifest_.runs.size()) + ", the number of runs";
    }
    const auto end = checked_add(offset, bytes);
    if (end && *end <= manifest_.runs[run].bytes) return {};
    return path + ".offset: found " + std::to_string(offset) + " with " + std::to_string(bytes) +
           " bytes; wanted an end within the " + std::to_string(manifest_.runs[run].bytes) + " bytes of run " +
           std::to_string(run);
  }

  Problem files() {
    for (std::size_t i = 0; i < manifest_.files.size(); ++i) {
      const FileEntry& file = manifest_.files[i];
      const std::string path = element("files", i);
      if (const std::string_view fault = path_fault(file.path); !fault.empty()) {
        return path + ".path: " + in_quotes(file.path) + " " + std::string(fault) +
               "; wanted a relative path whose parts are names";
      }
      if (i > 0 && manifest_.files[i - 1].path >= file.path) {
        return path + ".path: " + in_quotes(file.path) + " follows " + in_quotes(manifest_.files[i - 1].path) +
               "; wanted paths sorted and without repetition";
      }
      if (Problem problem = folder_is_file(i)) return problem;
      std::uint64_t total = 0;
      for (std::size_t k = 0; k < file.pieces.size(); ++k) {
        const Piece& piece = file.pieces[k];
        const std::string piece_path = path + "." + element("pieces", k);
        if (piece.bytes == 0) return piece_path + ".bytes: found 0; wanted at least 1";
        if (Problem problem = place(piece_path, piece.run, piece.offset, piece.bytes)) return problem;
        const auto sum = checked_add(total, piece.bytes);
        if (!sum) return path + ".pieces: the sum of their bytes does not fit 64 bits";
        total = *sum;
      }
      if (Problem problem = differs(path + ".bytes", file.bytes, total, "the sum of its pieces")) return problem;
    }
    return {};
  }

  /// A file cannot also be the folder of another one. The file's path sorts before every path below it.
  Problem folder_is_file(std::size_t index) const {
    const std::string_view path = manifest_.files[index].path;
    const std::span<const FileEntry> before(manifest_.files.data(), index);
    for (std::size_t end = path.find('/'); end != std::string_view::npos; end = path.find('/', end + 1)) {
      const std::string_view folder = path.substr(0, end);
      const auto found = std::ranges::lower_bound(before, folder, {},
                                                  [](const FileEntry& file) { return std::string_view(file.path); });
      if (found != before.end() && found->path == folder) {
        return element("files", index) + ".path: " + in_quotes(path) + " lies in a folder of the name of the file " +
               in_quotes(folder);
      }
    }
    return {};
  }

  /// `bytes` are those of `elements` elements, where the dtype is a known one. Paths are relative to their owner.
  Problem size_of(std::string_view dtype, std::int64_t elements, std::uint64_t bytes) {
    if (dtype != last_dtype_) {
      last_dtype_ = dtype;
      last_bits_ = dtype_bits(dtype);
    }
    if (!last_bits_) return {};
    const auto bits = checked_mul<std::uint64_t>(static_cast<std::uint64_t>(elements), *last_bits_);
    if (!bits) return ": its size in bits does not fit 64 bits";
    if (*bits % 8 != 0) return ": " + std::to_string(*bits) + " bits of " + in_quotes(dtype) + " are no whole bytes";
    if (bytes == *bits / 8) return {};
    return differs(".bytes", bytes, *bits / 8, "the size of its shape in " + in_quotes(dtype));
  }

  Problem tensors() {
    const TensorTable& table = manifest_.tensors;
    if (table.size() > limits::kManifestTensorsMax) {
      return "tensors: found " + std::to_string(table.size()) + "; wanted at most " +
             std::to_string(limits::kManifestTensorsMax);
    }
    for (std::size_t i = 0; i < table.size(); ++i) {
      const TensorRow row = table.row(i);
      if (i > 0 && table.tensor_id(i - 1) >= row.tensor_id) {
        return element("tensors", i) + ".tensor_id: " + in_quotes(row.tensor_id) + " follows " +
               in_quotes(table.tensor_id(i - 1)) + "; wanted ids sorted and without repetition";
      }
      if (Problem problem = tensor(row)) return element("tensors", i) + *problem;
    }
    return {};
  }

  /// Paths are relative to the tensor.
  Problem tensor(const TensorRow& row) {
    if (Problem problem = bad_utf8(".tensor_id", row.tensor_id)) return problem;
    if (row.dtype.empty()) return ".dtype: is empty";
    if (Problem problem = bad_utf8(".dtype", row.dtype)) return problem;
    if (row.layout_fingerprint.empty()) return ".layout_fingerprint: is empty";
    if (Problem problem = bad_utf8(".layout_fingerprint", row.layout_fingerprint)) return problem;
    for (std::size_t k = 0; k < row.aliases.size(); ++k) {
      const std::string path = "." + element("aliases", k);
      if (row.aliases[k].empty()) return path + ": is empty";
      if (Problem problem = bad_utf8(path, row.aliases[k])) return problem;
      if (k > 0 && row.aliases[k - 1] >= row.aliases[k]) {
        return path + ": " + in_quotes(row.aliases[k]) + "; wanted aliases sorted and without repetition";
      }
    }
    for (std::size_t k = 0; k < row.shape.size(); ++k) {
      if (row.shape[k] < 0) {
        return "." + element("shape", k) + ": found " + std::to_string(row.shape[k]) + "; wanted at least 0";
      }
    }
    const Result<std::int64_t> elements = geometry::checked_volume(row.shape);
    if (!elements.ok()) return ".shape: " + elements.status().message();
    if (!row.place) return {};
    if (Problem problem = place({}, row.place->run, row.place->offset, row.place->bytes)) return problem;
    return size_of(row.dtype, *elements, row.place->bytes);
  }

  Problem fragments() {
    std::vector<bool> cut(manifest_.tensors.size());
    for (std::size_t first = 0; first < manifest_.fragments.size();) {
      const std::string& id = manifest_.fragments[first].tensor_id;
      std::size_t last = first + 1;
      while (last < manifest_.fragments.size() && manifest_.fragments[last].tensor_id == id) ++last;
      if (Problem problem = fragments_of_one(first, last, cut)) return problem;
      first = last;
    }
    for (std::size_t i = 0; i < manifest_.tensors.size(); ++i) {
      if (cut[i] || manifest_.tensors.has_place(i)) continue;
      const std::span<const std::int64_t> shape = manifest_.tensors.row(i).shape;
      if (std::ranges::find(shape, 0) != shape.end()) continue;
      return element("tensors", i) + ": has no place; wanted bytes, offset and run, or fragments";
    }
    return {};
  }

  /// Fragments [first, last) have one tensor_id.
  Problem fragments_of_one(std::size_t first, std::size_t last, std::vector<bool>& cut) {
    const std::string& id = manifest_.fragments[first].tensor_id;
    const std::string first_path = element("fragments", first);
    if (first > 0 && manifest_.fragments[first - 1].tensor_id >= id) {
      return first_path + ".tensor_id: " + in_quotes(id) + " follows " +
             in_quotes(manifest_.fragments[first - 1].tensor_id) + "; wanted fragments sorted by tensor";
    }
    const auto found = manifest_.tensors.find(id);
    if (!found) return first_path + ".tensor_id: no tensor is named " + in_quotes(id);
    const TensorRow row = manifest_.tensors.row(*found);
    if (row.place) return first_path + ".tensor_id: the tensor " + in_quotes(id) + " is stored whole";
    cut[*found] = true;
    const std::span<const FragmentEntry> group(manifest_.fragments.data() + first, last - first);
    for (std::size_t k = 0; k < group.size(); ++k) {
      const std::string path = element("fragments", first + k);
      if (k > 0 && group[k - 1].global_offset >= group[k].global_offset) {
        return path + ".global_offset: wanted the fragments of a tensor sorted by it and without repetition";
      }
      if (Problem problem = fragment(row, group[k])) return path + *problem;
    }
    std::vector<geometry::Box> boxes;
    boxes.reserve(group.size());
    for (const FragmentEntry& entry : group) boxes.push_back({entry.global_offset, entry.local_shape});
    if (const auto pair = geometry::find_overlap(boxes)) {
      return element("fragments", first + pair->second) + ": overlaps " + element("fragments", first + pair->first) +
             " of the tensor " + in_quotes(id);
    }
    return {};
  }

  /// Paths are relative to the fragment.
  Problem fragment(const TensorRow& row, const FragmentEntry& fragment) {
    const std::size_t rank = row.shape.size();
    if (fragment.global_offset.size() != rank) {
      return differs(".global_offset", fragment.global_offset.size(), rank, "its tensor's rank");
    }
    if (fragment.local_shape.size() != rank) {
      return differs(".local_shape", fragment.local_shape.size(), rank, "its tensor's rank");
    }
    for (std::size_t k = 0; k < rank; ++k) {
      const std::int64_t offset = fragment.global_offset[k];
      const std::int64_t extent = fragment.local_shape[k];
      if (offset < 0) {
        return "." + element("global_offset", k) + ": found " + std::to_string(offset) + "; wanted at least 0";
      }
      if (extent < 1) {
        return "." + element("local_shape", k) + ": found " + std::to_string(extent) + "; wanted at least 1";
      }
      const auto end = checked_add(offset, extent);
      if (!end || *end > row.shape[k]) {
        return "." + element("local_shape", k) + ": found " + std::to_string(extent) + " from " +
               std::to_string(offset) + "; wanted an end within the tensor's " + std::to_string(row.shape[k]);
      }
    }
    if (Problem problem = place({}, fragment.place.run, fragment.place.offset, fragment.place.bytes)) return problem;
    return size_of(row.dtype, geometry::checked_volume(fragment.local_shape).value(), fragment.place.bytes);
  }

  const StoredManifest& manifest_;
  std::string last_dtype_;
  std::optional<std::uint32_t> last_bits_;
};

}  // namespace

Problem find_manifest_problem(const StoredManifest& manifest) { return Validator(manifest).run(); }

}  // namespace steelyard::formats
