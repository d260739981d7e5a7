// The writer's note: who has the database's one writing transaction open, so that those who wait can name them.
//
// It is the first line of the turnstile's file `<base>.turn`, which holds nothing else. Whoever has begun a transaction
// writes it and, when it has ended, takes it back. It is for messages alone: nothing is decided by it, and where it
// cannot be written nobody is named; so it is not mapped either, which would end a writer whose file others cut short.
// Written after BEGIN and not with the turn, because who gave the turn up as stuck writes too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/runtime.h"
#include "base/unique_fd.h"

namespace steelyard::oplog::sqlite {

/// Thread-compatible; one per log.
class WriterNote {
 public:
  struct Holder {
    ProcessIdentity process;
    std::int64_t since_mono_ms = 0;
    bool operator==(const Holder&) const = default;
  };

  /// As of the turnstile.
  WriterNote(Runtime& runtime, int folder, const std::string& base)
      : runtime_(runtime), folder_(folder), name_(base + ".turn") {}

  void put();
  void take_back();
  /// Absent where nobody says so, or only somebody who cannot be alive any more or spoke before the host's last start.
  std::optional<Holder> find_holder();

  static std::string encode(const Holder& holder);
  /// Absent for a note taken back, and for anything that is no note.
  static std::optional<Holder> parse(std::string_view text);

 private:
  bool open_file();

  Runtime& runtime_;
  int folder_;
  std::string name_;
  UniqueFd fd_;
};

}  // namespace steelyard::oplog::sqlite
