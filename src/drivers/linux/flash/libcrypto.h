// LibCrypto: what is used of OpenSSL's libcrypto: opened at run time where a runtime encrypts, so that no other program
// loads it, and declared here, so that nothing of OpenSSL is needed to build. Immutable once loaded; any thread.
#pragma once

#include <string>

#include "ebb/status.h"

namespace ebb {

struct LibCrypto {
  struct Context;  // EVP_CIPHER_CTX
  struct Cipher;   // EVP_CIPHER
  struct Library;  // OSSL_LIB_CTX

  // kUnsupported with what is to be done: there is none, or none of version 3.
  static Status load(LibCrypto& library, std::string& reason);

  Library* (*new_library)() = nullptr;
  Cipher* (*fetch)(Library*, const char* algorithm, const char* properties) = nullptr;
  Context* (*new_context)() = nullptr;
  void (*free_context)(Context*) = nullptr;
  // 1: done. Null: as it was.
  int (*init)(Context*, const Cipher*, void* engine, const unsigned char* key, const unsigned char* iv,
              int encrypt) = nullptr;
  int (*update)(Context*, unsigned char* to, int* written, const unsigned char* from, int bytes) = nullptr;
};

}  // namespace ebb
