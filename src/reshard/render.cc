// A picture of one tensor of a plan.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "reshard/explain.h"
#include "reshard/plan_inputs.h"

namespace steelyard::reshard {
namespace {

constexpr int kPanelWidth = 260;
constexpr int kPanelHeight = 240;
constexpr int kGap = 36;
constexpr int kTop = 58;
constexpr int kBottom = 44;
/// More boxes than this in one panel cannot be told apart.
constexpr std::size_t kBoxesMax = 2048;

/// Colours that keep apart from one another also for readers who do not see red and green.
constexpr std::array<std::string_view, 8> kColours = {"#4e79a7", "#f28e2b", "#76b7b2", "#e15759",
                                                      "#b07aa1", "#edc948", "#59a14f", "#9c755f"};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // Controls other than white space are not allowed in XML at all.
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

/// "tp 3", or all that is not 0; "rank 0" when everything is.
std::string short_rank(const placement::ParallelRank& rank) {
  std::string text;
  const auto part = [&](const char* name, std::int64_t value) {
    if (value != 0) text += (text.empty() ? "" : " ") + std::string(name) + std::to_string(value);
  };
  part("dp", rank.dp);
  part("tp", rank.tp);
  part("pp", rank.pp);
  part("ep", rank.ep);
  return text.empty() ? "rank 0" : text;
}

using Rectangle = std::array<std::int64_t, 4>;  ///< row, column, rows, columns

struct Shape {
  Rectangle at{};
  std::string colour;
  std::string label;
};

class Picture {
 public:
  Picture(const TransferPlan& plan, std::uint32_t tensor)
      : plan_(plan), inputs_(plan.inputs()), tensor_(tensor), shape_(plan.tensor_shape(tensor)) {
    choose_dimensions();
  }

  std::string draw() {
    const int width = 3 * kPanelWidth + 4 * kGap;
    const int height = kTop + kPanelHeight + kBottom;
    out_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + std::to_string(width) + " " +
           std::to_string(height) + "\" width=\"" + std::to_string(width) + "\" height=\"" + std::to_string(height) +
           "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
    text(kGap, 22, "start", 14, std::string(plan_.tensor_id(tensor_)) + "  " + tuple_text(shape_));
    panel(0, "source", pieces_of(inputs_.source_pieces, plan_.source(), true));
    panel(1, "target", pieces_of(inputs_.target_pieces, plan_.target(), false));
    panel(2, "regions, by the source that is read", regions());
    text(kGap, height - 14, "start", 11, axes_text());
    return out_ + "</svg>\n";
  }

 private:
  void choose_dimensions() {
    std::vector<std::pair<std::size_t, std::size_t>> cuts;  // number of cuts, dimension
    for (std::size_t d = 0; d < shape_.size(); ++d) {
      std::set<std::int64_t> places;
      for (const PieceTable* pieces : {&inputs_.source_pieces, &inputs_.target_pieces}) {
        for (std::size_t p = 0; p < pieces->size(); ++p) {
          if (pieces->tensor(p) == tensor_) places.insert(pieces->offset(p)[d]);
        }
      }
      cuts.emplace_back(places.size(), d);
    }
    std::stable_sort(cuts.begin(), cuts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    if (cuts.size() > 2) cuts.resize(2);
    for (const auto& entry : cuts) shown_.push_back(entry.second);
    std::sort(shown_.begin(), shown_.end());
  }

  Rectangle rectangle(std::span<const std::int64_t> offset, std::span<const std::int64_t> extent) const {
    Rectangle at{0, 0, 1, 1};
    for (std::size_t i = 0; i < shown_.size(); ++i) {
      const std::size_t axis = shown_.size() == 1 ? 0 : i;
      at[axis] = offset[shown_[i]];
      at[axis + 2] = extent[shown_[i]];
    }
    return at;
  }

  static std::string colour(std::uint32_t rank) { return std::string(kColours[rank % kColours.size()]); }

  /// One shape per distinct box; its label names the ranks that hold it.
  std::vector<Shape> pieces_of(const PieceTable& pieces, const PlanSide& side, bool coloured) const {
    std::map<Rectangle, std::vector<std::uint32_t>> ranks;
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      if (pieces.tensor(p) != tensor_) continue;
      ranks[rectangle(pieces.offset(p), pieces.extent(p))].push_back(side.rank_number(pieces.fragment(p)));
    }
    std::vector<Shape> shapes;
    for (auto& [at, holders] : ranks) {
      std::sort(holders.begin(), holders.end());
      holders.erase(std::unique(holders.begin(), holders.end()), holders.end());
      std::string label = side.stored() ? "stored" : short_rank(side.ranks()[holders[0]]);
      if (holders.size() > 1) label += " and " + std::to_string(holders.size() - 1) + " more";
      shapes.push_back({at, coloured ? colour(holders[0]) : "#d9dde2", label});
    }
    return shapes;
  }

  std::vector<Shape> regions() const {
    std::vector<Shape> shapes;
    std::set<std::pair<Rectangle, std::uint32_t>> seen;
    for (std::size_t r = 0; r < plan_.regions().size(); ++r) {
      const RegionRow row = plan_.regions().row(r);
      if (row.tensor != tensor_) continue;
      const std::uint32_t rank = plan_.source().rank_number(row.source);
      const Rectangle at = rectangle(row.offset, row.extent);
      if (!seen.emplace(at, rank).second) continue;
      const std::string from = plan_.source().stored() ? "stored" : short_rank(plan_.source().ranks()[rank]);
      shapes.push_back({at, colour(rank), from});
    }
    return shapes;
  }

  void panel(int index, std::string_view title, const std::vector<Shape>& shapes) {
    const int left = kGap + index * (kPanelWidth + kGap);
    text(left, kTop - 8, "start", 12, std::string(title));
    const double rows = static_cast<double>(shown_.empty() ? 1 : shape_[shown_[0]]);
    const double columns = static_cast<double>(shown_.size() < 2 ? 1 : shape_[shown_[1]]);
    const std::size_t drawn = std::min(shapes.size(), kBoxesMax);
    for (std::size_t i = 0; i < drawn; ++i) {
      const Shape& shape = shapes[i];
      const double x = left + kPanelWidth * static_cast<double>(shape.at[1]) / columns;
      const double y = kTop + kPanelHeight * static_cast<double>(shape.at[0]) / rows;
      const double w = kPanelWidth * static_cast<double>(shape.at[3]) / columns;
      const double h = kPanelHeight * static_cast<double>(shape.at[2]) / rows;
      out_ += "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(w) + "\" height=\"" +
              number(h) + "\" fill=\"" + shape.colour + "\" fill-opacity=\"0.75\" stroke=\"#30363d\"><title>" +
              escaped(shape.label) + "</title></rect>\n";
      if (h >= 14 && w >= 7.0 * static_cast<double>(shape.label.size())) {
        text(static_cast<int>(x + w / 2), static_cast<int>(y + h / 2) + 4, "middle", 11, shape.label);
      }
    }
    if (drawn < shapes.size()) {
      text(left, kTop + kPanelHeight + 16, "start", 11,
           std::to_string(shapes.size() - drawn) + " more boxes are not drawn");
    }
  }

  std::string axes_text() const {
    if (shown_.empty()) return "a scalar";
    std::string out = "down: dimension " + std::to_string(shown_[0]);
    if (shown_.size() > 1) out += "; across: dimension " + std::to_string(shown_[1]);
    if (shape_.size() > 2) out += "; the others are not shown";
    return out;
  }

  /// One decimal, without the rounding of a locale.
  static std::string number(double value) {
    const auto tenths = static_cast<std::int64_t>(value * 10 + 0.5);
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
  }

  void text(int x, int y, const char* anchor, int size, const std::string& content) {
    out_ += "<text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\" text-anchor=\"" + anchor +
            "\" font-size=\"" + std::to_string(size) + "\" fill=\"#16191d\">" + escaped(content) + "</text>\n";
  }

  const TransferPlan& plan_;
  const PlanInputs& inputs_;
  std::uint32_t tensor_;
  std::span<const std::int64_t> shape_;
  std::vector<std::size_t> shown_;
  std::string out_;
};

}  // namespace

Result<std::string> render_svg(const TransferPlan& plan, std::string_view tensor_id) {
  const auto& tensors = plan.inputs().tensors;
  const auto at = std::lower_bound(tensors.begin(), tensors.end(), tensor_id,
                                   [](const PlannedTensor& tensor, std::string_view id) { return tensor.id < id; });
  if (at == tensors.end() || at->id != tensor_id) {
    return Status(Code::kInvalidArgument, "the plan has no tensor \"" + std::string(tensor_id) + "\"");
  }
  return Picture(plan, static_cast<std::uint32_t>(at - tensors.begin())).draw();
}

}  // namespace steelyard::reshard
