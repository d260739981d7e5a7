#include "store/import_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"
#include "base/limits.h"
#include "base/units.h"

namespace steelyard::store {
namespace {

class Layouter {
 public:
  explicit Layouter(std::uint64_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}

  Status add_file(std::uint32_t index, formats::PlannedFile& file) {
    const auto first = static_cast<std::uint32_t>(layout_.objects.size());
    layout_.pieces.emplace_back();
    if (file.header) {
      const std::uint64_t header_bytes = file.header->header_bytes;
      SY_RETURN_IF_ERROR(add_run(index, 0, header_bytes));
      if (file.bytes > header_bytes) {
        SY_RETURN_IF_ERROR(add_run(index, header_bytes, file.bytes - header_bytes));
      }
    } else if (file.bytes > 0) {
      SY_RETURN_IF_ERROR(add_run(index, 0, file.bytes));
    }
    layout_.files.push_back({first, static_cast<std::uint32_t>(layout_.objects.size()) - first});
    return file.header ? add_tensors(file) : Status();
  }

  ImportLayout finish() && {
    layout_.tensors.sort();
    return std::move(layout_);
  }

 private:
  Status add_run(std::uint32_t file, std::uint64_t file_offset, std::uint64_t bytes) {
    const std::uint64_t count = div_ceil(bytes, chunk_bytes_);
    if (layout_.objects.size() + count > limits::kManifestObjectsMax) {
      return {Code::kInvalidArgument,
              fmt::format("the source needs more than {} payload objects of {}", limits::kManifestObjectsMax,
                          format_size(chunk_bytes_)),
              "import with a larger --chunk-size"};
    }
    const auto run = static_cast<std::uint32_t>(layout_.runs.size());
    layout_.runs.push_back(
        {bytes, chunk_bytes_, static_cast<std::uint32_t>(layout_.objects.size()), static_cast<std::uint32_t>(count)});
    layout_.pieces.back().push_back({run, 0, bytes});
    for (std::uint64_t done = 0; done < bytes; done += chunk_bytes_) {
      const std::uint64_t size = std::min(chunk_bytes_, bytes - done);
      layout_.objects.push_back({file, file_offset + done, size});
      layout_.object_bytes_max = std::max(layout_.object_bytes_max, size);
    }
    return {};
  }

  Status add_tensors(formats::PlannedFile& file) {
    // An all-empty data section has no run; its tensors have no bytes and lie at the end of the header.
    const bool has_data = file.bytes > file.header->header_bytes;
    const auto run = static_cast<std::uint32_t>(layout_.runs.size() - 1);
    const std::uint64_t base = has_data ? 0 : file.header->header_bytes;
    const formats::TensorTable table = std::move(file.header->tensors);
    file.header->tensors = {};
    if (layout_.tensors.size() + table.size() > limits::kManifestTensorsMax) {
      return {Code::kInvalidArgument, fmt::format("the source has more than {} tensors", limits::kManifestTensorsMax),
              "split it into several revisions"};
    }
    std::string id;
    for (std::size_t i = 0; i < table.size(); ++i) {
      formats::TensorRow row = table.row(i);
      if (!file.component.empty()) {
        id = file.component;
        id.append(row.tensor_id);
        row.tensor_id = id;
      }
      row.place->run = run;
      row.place->offset += base;
      layout_.tensors.add(row);
    }
    return {};
  }

  std::uint64_t chunk_bytes_;
  ImportLayout layout_;
};

}  // namespace

Result<ImportLayout> lay_out(formats::CheckpointPlan& plan, std::uint64_t chunk_bytes) {
  Layouter layouter(chunk_bytes);
  for (std::size_t i = 0; i < plan.files.size(); ++i) {
    SY_RETURN_IF_ERROR(layouter.add_file(static_cast<std::uint32_t>(i), plan.files[i]));
  }
  return std::move(layouter).finish();
}

}  // namespace steelyard::store
