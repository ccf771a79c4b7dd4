// ThreadFlash: the flash device on a few threads that call pread and pwrite: for machines where io_uring is forbidden.
//
// One mutex guards two bounded queues, of requests and of completions; it is never held during a transfer.
// in flight = requests + transfers under way + completions that have not been polled <= depth. Threads do not survive
// fork: in a child only read_now() and destruction are of use.
#pragma once

#include <memory>

#include "drivers/linux/flash/flash_file.h"
#include "port/raw_flash.h"

namespace ebb {

class ThreadFlash final : public RawFlash {
 public:
  static constexpr std::uint32_t kThreads = 4;

  // kUnsupported: no threads can be had; `file` is left as it was.
  static Status make(FlashFile& file, std::uint32_t depth, std::unique_ptr<ThreadFlash>& flash);
  ~ThreadFlash() override;

  std::uint32_t depth() const override;
  void submit(const RawRequest& request) override;
  std::size_t poll(std::span<RawCompletion> completions) override;
  void wait(std::chrono::nanoseconds timeout) override;
  void wake() override;
  Status reserve(std::uint64_t bytes) override { return file_.grow(bytes); }
  Status read_now(const RawRequest& request) override { return file_.move(request); }

 private:
  struct Pool;

  ThreadFlash();
  void work();

  FlashFile file_;
  std::unique_ptr<Pool> pool_;
};

}  // namespace ebb
