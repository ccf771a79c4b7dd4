// JobMessage: what a member of a job and its broker tell each other, one struct a packet (SOCK_SEQPACKET), both ways.
// Anything of another size, magic or version is none, and ends the connection.
#pragma once

#include <cstdint>
#include <type_traits>

namespace ebb {

struct JobMessage {
  static constexpr std::uint32_t kMagic = 0x6a626265;  // "ebbj"
  static constexpr std::uint16_t kVersion = 1;

  enum class Kind : std::uint16_t {
    kHello = 1,   // member: I am here, and have asked for nothing: `rank` of `ranks`, least_bytes, most_bytes
    kNeed = 2,    // member: I am about to use memory
    kReport = 3,  // member: how things are, by the order `serial`
    kGrant = 4,   // broker: so much is yours from now on, or down to so much: `bytes`, by the order `serial`
    kRefuse = 5,  // broker: there is not so much; `bytes` is the budget of all, `members` how many share it
    kFlash = 6,   // member: `bytes` more of it, please; broker: `bytes` in all
  };

  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  Kind kind = Kind::kHello;
  std::int32_t rank = -1;    // on this machine; -1: none
  std::uint32_t ranks = 0;   // that the launcher starts here
  std::uint64_t serial = 0;  // of the newest order that the member knows
  std::uint64_t bytes = 0;   // kReport: what the member may hold now
  std::uint64_t least_bytes = 0;
  std::uint64_t most_bytes = 0;
  std::uint64_t resident_bytes = 0;
  std::uint32_t stall_permille = 0;  // of the time since the last report
  std::uint32_t stuck = 0;           // 1: `bytes` is as far down as it comes
  std::uint32_t members = 0;
  std::uint32_t report_ms = 0;  // kGrant: how often to report; 0: as usual
};

static_assert(std::is_trivially_copyable_v<JobMessage> && sizeof(JobMessage) == 72, "it is sent as bytes");

inline bool valid(const JobMessage& message, std::uint64_t received) {
  return received == sizeof message && message.magic == JobMessage::kMagic && message.version == JobMessage::kVersion;
}

}  // namespace ebb
