// The socket of a job: made by `ebb run` in its private directory (mode 0600), and connected to by each member. Packets
// are JobMessages; none of these functions waits, but connect_job() for as long as the listener's queue is full.
#pragma once

#include <optional>
#include <string>

#include "job/message.h"

namespace ebb {

// -1 with errno. The caller owns the descriptor, which programs that it starts do not inherit.
int listen_job(const std::string& path);
int connect_job(const std::string& path);

// False: it is not connected any more, or takes no more now.
bool send_job(int socket, const JobMessage& message);

enum class Received { kNothing, kMessage, kClosed };  // kClosed: or who sends there does not speak this language
Received receive_job(int socket, JobMessage& message);

}  // namespace ebb
