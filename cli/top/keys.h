// Keys out of the bytes that a terminal sends. A sequence may come in pieces: what follows an escape within the same
// moment belongs to it, and an escape that nothing follows is the key. One thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ebb::cli {

struct Key {
  enum class Name { kCharacter, kUp, kDown, kLeft, kRight, kPageUp, kPageDown, kHome, kEnd, kHelp, kQuit, kEscape };
  Name name = Name::kCharacter;
  char character = 0;
};

class Keys {
 public:
  void feed(std::string_view bytes) { pending_ += bytes; }
  // `settled`: no more bytes come in this moment. Sequences that mean nothing here are passed over.
  std::optional<Key> next(bool settled);
  bool unsettled() const { return !pending_.empty(); }

 private:
  std::string pending_;
};

}  // namespace ebb::cli
