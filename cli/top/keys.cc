// See keys.h. Sequences are those of ECMA-48 (ESC [ parameters final) and the application keypad's (ESC O final).
#include "top/keys.h"

#include <utility>

namespace ebb::cli {
namespace {

constexpr char kEscape = '\033';

std::optional<Key::Name> name_of(std::string_view sequence) {
  static constexpr std::pair<std::string_view, Key::Name> kNames[] = {
      {"[A", Key::Name::kUp},     {"[B", Key::Name::kDown},  {"[C", Key::Name::kRight},   {"[D", Key::Name::kLeft},
      {"[H", Key::Name::kHome},   {"[F", Key::Name::kEnd},   {"[1~", Key::Name::kHome},   {"[4~", Key::Name::kEnd},
      {"[7~", Key::Name::kHome},  {"[8~", Key::Name::kEnd},  {"[5~", Key::Name::kPageUp}, {"[6~", Key::Name::kPageDown},
      {"[11~", Key::Name::kHelp}, {"[[A", Key::Name::kHelp}, {"[21~", Key::Name::kQuit},  {"OA", Key::Name::kUp},
      {"OB", Key::Name::kDown},   {"OC", Key::Name::kRight}, {"OD", Key::Name::kLeft},    {"OH", Key::Name::kHome},
      {"OF", Key::Name::kEnd},    {"OP", Key::Name::kHelp},
  };
  for (const auto& [bytes, name] : kNames) {
    if (bytes == sequence) return name;
  }
  return std::nullopt;
}

// How many bytes after an escape belong to it; 0: more have to come first.
std::size_t length_of(std::string_view after) {
  if (after.empty()) return 0;
  if (after.front() == 'O') return after.size() < 2 ? 0 : 2;
  if (after.front() != '[') return 1;
  const std::size_t begin = after.size() > 1 && after[1] == '[' ? 2 : 1;  // the Linux console's F1 is ESC [ [ A
  for (std::size_t i = begin; i < after.size(); ++i) {
    if (after[i] >= 0x40 && after[i] <= 0x7E) return i + 1;
  }
  return 0;
}

}  // namespace

std::optional<Key> Keys::next(bool settled) {
  while (!pending_.empty()) {
    const char first = pending_.front();
    if (first != kEscape) {
      pending_.erase(0, 1);
      return Key{Key::Name::kCharacter, first};
    }
    const std::size_t length = length_of(std::string_view(pending_).substr(1));
    if (length == 0 && !settled) return std::nullopt;
    const std::string sequence = pending_.substr(1, length == 0 ? pending_.size() : length);
    pending_.erase(0, 1 + sequence.size());
    if (sequence.empty()) return Key{Key::Name::kEscape, 0};
    if (const auto name = name_of(sequence)) return Key{*name, 0};
  }
  return std::nullopt;
}

}  // namespace ebb::cli
