#include "oplog/sqlite/writer_note.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>

namespace steelyard::oplog::sqlite {
namespace {

constexpr char kWriting = '+';
constexpr char kDone = '-';
constexpr std::size_t kNoteBytesMax = 512;
constexpr std::size_t kFields = 6;

template <typename Number>
bool parse_number(std::string_view text, Number& out) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, out);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

}  // namespace

std::string WriterNote::encode(const Holder& holder) {
  const ProcessIdentity& process = holder.process;
  std::string out(1, kWriting);
  for (const std::string& field : {process.host, process.boot_id, std::to_string(process.pid_namespace),
                                   std::to_string(process.pid), std::to_string(process.start_ticks)}) {
    out.append(field).push_back('\t');
  }
  return out.append(std::to_string(holder.since_mono_ms)).append("\n");
}

std::optional<WriterNote::Holder> WriterNote::parse(std::string_view text) {
  if (text.empty() || text.front() != kWriting) return std::nullopt;
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view rest = text.substr(1, end - 1);
  std::array<std::string_view, kFields> fields;
  for (std::size_t i = 0; i < kFields; ++i) {
    const std::size_t tab = rest.find('\t');
    if ((tab == std::string_view::npos) != (i + 1 == kFields)) return std::nullopt;
    fields[i] = rest.substr(0, tab);
    if (i + 1 < kFields) rest.remove_prefix(tab + 1);
  }
  Holder holder;
  holder.process.host = std::string(fields[0]);
  holder.process.boot_id = std::string(fields[1]);
  const bool whole =
      parse_number(fields[2], holder.process.pid_namespace) && parse_number(fields[3], holder.process.pid) &&
      parse_number(fields[4], holder.process.start_ticks) && parse_number(fields[5], holder.since_mono_ms);
  if (!whole || holder.process.host.empty() || holder.process.pid <= 0) return std::nullopt;
  return holder;
}

bool WriterNote::open_file() {
  if (!fd_.valid()) fd_ = UniqueFd(openat(folder_, name_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  return fd_.valid();
}

void WriterNote::put() {
  if (!open_file()) return;
  const std::string note = encode(Holder{runtime_.self(), runtime_.mono_ms()});
  if (note.size() > kNoteBytesMax) return;
  // What a longer note left behind stands after the line feed, where nobody reads.
  static_cast<void>(pwrite(fd_.get(), note.data(), note.size(), 0) >= 0);
}

void WriterNote::take_back() {
  if (fd_.valid()) static_cast<void>(pwrite(fd_.get(), &kDone, 1, 0) >= 0);
}

std::optional<WriterNote::Holder> WriterNote::find_holder() {
  if (!open_file()) return std::nullopt;
  std::array<char, kNoteBytesMax> text{};
  const ssize_t bytes = pread(fd_.get(), text.data(), text.size(), 0);
  if (bytes <= 0) return std::nullopt;
  auto holder = parse({text.data(), static_cast<std::size_t>(bytes)});
  if (!holder || holder->process.boot_id != runtime_.self().boot_id || runtime_.provably_gone(holder->process)) {
    return std::nullopt;
  }
  return holder;
}

}  // namespace steelyard::oplog::sqlite
