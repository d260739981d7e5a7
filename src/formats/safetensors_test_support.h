// Makes safetensors files for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace steelyard::formats {

struct TestTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
};

inline std::string with_length(std::uint64_t length, std::string_view rest) {
  std::string file;
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<char>((length >> (8 * i)) & 0xFF));
  return file.append(rest);
}

inline std::string with_header(const std::string& header, const std::string& data) {
  return with_length(header.size(), header + data);
}

inline std::string json_text(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.append({'\\', c});
    } else if (byte < 0x20) {
      out.append("\\u00").append({kDigits[byte >> 4], kDigits[byte & 15]});
    } else {
      out.push_back(c);
    }
  }
  return out + "\"";
}

/// A whole file whose data follows the order of `tensors`; its header lists them in the order of the sort keys in
/// `order` (empty: the same order), padded with spaces.
inline std::string test_file(const std::vector<TestTensor>& tensors, const std::vector<std::uint32_t>& order = {},
                             int padding = 0) {
  std::vector<std::string> entries;
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TestTensor& tensor = tensors[i];
    std::string shape;
    for (const std::int64_t dimension : tensor.shape) {
      shape.append(shape.empty() ? "" : ",").append(std::to_string(dimension));
    }
    const std::string offsets =
        "\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(at + tensor.bytes) + "]";
    const std::string dtype = "\"dtype\":" + json_text(tensor.dtype);
    const std::string dimensions = "\"shape\":[" + shape + "]";
    const bool turned = !order.empty() && order[i] % 2 == 1;
    entries.push_back(json_text(tensor.name) + ":{" +
                      (turned ? offsets + "," + dimensions + "," + dtype : dtype + "," + dimensions + "," + offsets) +
                      "}");
    at += tensor.bytes;
  }
  std::vector<std::size_t> listed(tensors.size());
  std::iota(listed.begin(), listed.end(), std::size_t{0});
  if (!order.empty()) {
    std::stable_sort(listed.begin(), listed.end(), [&](std::size_t a, std::size_t b) { return order[a] < order[b]; });
  }
  std::string header = "{";
  for (const std::size_t i : listed) header.append(header.size() == 1 ? "" : ",").append(entries[i]);
  header.append("}").append(static_cast<std::size_t>(padding), ' ');
  return with_header(header, std::string(at, 'd'));
}

}  // namespace steelyard::formats
