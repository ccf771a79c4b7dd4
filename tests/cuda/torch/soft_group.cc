// See soft_group.h.
#include "soft_group.h"

#include <chrono>
#include <thread>

#include "soft_stream.h"

namespace ebb::soft_device {
namespace {

constexpr std::chrono::milliseconds kLate{2};

void* group_stream() {
  static void* const stream = [] {
    void* made = nullptr;
    TORCH_CHECK(soft::new_stream(&made) == 0, "no stream for the process group");
    return made;
  }();
  return stream;
}

// As NCCL's: done when the stream of whoever waits has been told to wait.
class SoftWork final : public c10d::Work {
 public:
  SoftWork() : c10d::Work(0, c10d::OpType::ALLREDUCE) {}
  bool isCompleted() override { return false; }
  bool wait(std::chrono::milliseconds) override {
    TORCH_CHECK(soft::order(group_stream(), current_handle()) == 0, "a collective cannot be waited for");
    return true;
  }
};

class SoftGroup final : public c10d::Backend {
 public:
  SoftGroup(int rank, int size) : c10d::Backend(rank, size) {}
  const std::string getBackendName() const override { return "softgroup"; }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions&) override {
    TORCH_CHECK(soft::order(current_handle(), group_stream()) == 0, "a collective cannot be ordered");
    for (at::Tensor& tensor : tensors) {
      auto* const data = tensor.mutable_data_ptr<float>();
      const auto count = static_cast<std::size_t>(tensor.numel());
      const soft::Touch touch{data, count * sizeof(float), true};
      const int result = soft::launch(group_stream(), {&touch, 1}, [=] {
        std::this_thread::sleep_for(kLate);
        for (std::size_t i = 0; i < count; ++i) data[i] *= 2;
      });
      TORCH_CHECK(result == 0, "a collective failed with error ", result);
    }
    return c10::make_intrusive<SoftWork>();
  }

  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int, int) override {
    static_cast<void>(tensors.at(0).const_data_ptr());
    return c10::make_intrusive<SoftWork>();
  }
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_group(int rank, int size) { return c10::make_intrusive<SoftGroup>(rank, size); }

}  // namespace ebb::soft_device
