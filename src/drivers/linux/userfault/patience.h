// Patience: lets others proceed before an attempt is repeated, by yielding at first and by pauses later, until it has
// lasted too long. For what the kernel refuses for a moment: an event is unread, or a page is being migrated, reclaimed
// or written by a device, whose end is announced some microseconds before its pages are let go of. Of one thread.
#pragma once

#include <sched.h>
#include <unistd.h>

namespace ebb {

class Patience {
 public:
  explicit Patience(int tries_max, int pause_us = 20, int yields = 16)
      : tries_max_(tries_max), pause_us_(pause_us), yields_(yields) {}

  // False: it has lasted too long.
  bool wait() {
    if (++tries_ > tries_max_) return false;
    if (tries_ < yields_) {
      ::sched_yield();
    } else {
      ::usleep(static_cast<useconds_t>(pause_us_));
    }
    return true;
  }
  void renew() { tries_ = 0; }

 private:
  const int tries_max_, pause_us_, yields_;
  int tries_ = 0;
};

}  // namespace ebb
