// A tensor's storage that gives no address for a while, but throws a reason: what an operator finds whose launch was
// refused. No state; the thread of the operator.
#pragma once

#include <c10/core/StorageImpl.h>

#include <string>

namespace ebb::torch_adapter {

template <typename Impl>
concept TakesRefusalsBack = requires(Impl& impl) {
  impl.clear_data_ptr_access_error_msg_();
};

// PyTorch before 2.12 or so has no function for it. An explicit instantiation may name what is private (C++20,
// [temp.spec.general], 6).
void open_again(c10::StorageImpl& storage);
template <auto kRefused, auto kRefresh>
struct Opener {
  friend void open_again(c10::StorageImpl& storage) {
    storage.*kRefused = false;
    (storage.*kRefresh)();
  }
};
template struct Opener<&c10::StorageImpl::throw_on_immutable_data_ptr_, &c10::StorageImpl::refresh_has_data_ptr_check>;

inline void refuse_address(c10::StorageImpl& storage, const std::string& reason) {
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(reason);
}

template <typename Impl>
void give_address_again(Impl& storage) {
  if constexpr (TakesRefusalsBack<Impl>) {
    storage.clear_data_ptr_access_error_msg_();
  } else {
    open_again(storage);
  }
}

}  // namespace ebb::torch_adapter
