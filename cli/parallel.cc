// See parallel.h.
#include "parallel.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

namespace ebb::cli {
namespace {

class Pieces {
 public:
  Pieces(const std::vector<std::function<void()>>& pieces, const std::function<void(std::size_t done)>& told)
      : pieces_(pieces), told_(told) {}

  void work() {
    std::unique_lock lock(mutex_);
    while (failed_ == nullptr && begun_ < pieces_.size()) {
      const std::size_t piece = begun_++;
      lock.unlock();
      const std::exception_ptr failure = run(piece);
      lock.lock();
      if (failure != nullptr && piece < failed_piece_) {
        failed_ = failure;
        failed_piece_ = piece;
      }
      told_(++done_);
    }
  }
  void rethrow() const {
    if (failed_ != nullptr) std::rethrow_exception(failed_);
  }

 private:
  std::exception_ptr run(std::size_t piece) const noexcept {
    try {
      pieces_[piece]();
      return nullptr;
    } catch (...) {
      return std::current_exception();
    }
  }

  const std::vector<std::function<void()>>& pieces_;
  const std::function<void(std::size_t done)>& told_;
  std::mutex mutex_;
  std::size_t begun_ = 0;
  std::size_t done_ = 0;
  std::exception_ptr failed_;
  std::size_t failed_piece_ = static_cast<std::size_t>(-1);
};

}  // namespace

void run_in_parallel(const std::vector<std::function<void()>>& pieces,
                     const std::function<void(std::size_t done)>& told) {
  Pieces all(pieces, told);
  {
    std::vector<std::jthread> helpers;
    const std::size_t processors = std::max(1u, std::thread::hardware_concurrency());
    try {
      while (helpers.size() + 1 < std::min(processors, pieces.size())) helpers.emplace_back([&all] { all.work(); });
    } catch (const std::system_error&) {  // no more threads here: those that there are do it
    }
    all.work();
  }
  all.rethrow();
}

}  // namespace ebb::cli
