// See libcrypto.h.
#include "drivers/linux/flash/libcrypto.h"

#include <dlfcn.h>

namespace ebb {
namespace {

constexpr const char* kName = "libcrypto.so.3";

template <typename Function>
bool find(void* library, Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

Status LibCrypto::load(LibCrypto& api, std::string& reason) {
  // Never closed: the program may use it, too.
  void* const library = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  const bool whole = library != nullptr && find(library, api.new_library, "OSSL_LIB_CTX_new") &&
                     find(library, api.fetch, "EVP_CIPHER_fetch") &&
                     find(library, api.new_context, "EVP_CIPHER_CTX_new") &&
                     find(library, api.free_context, "EVP_CIPHER_CTX_free") &&
                     find(library, api.init, "EVP_CipherInit_ex") && find(library, api.update, "EVP_CipherUpdate");
  if (whole) return Status::kOk;
  reason =
      "flash cannot be encrypted: libcrypto of OpenSSL 3 (libcrypto.so.3) is not to be found; install it (Debian, "
      "Ubuntu: sudo apt-get install libssl3), or name a directory on an encrypted disk instead of --encrypt";
  return Status::kUnsupported;
}

}  // namespace ebb
