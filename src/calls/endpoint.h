// Endpoint: what a descriptor leads to, as far as it decides how a call on it may be cut into several.
#pragma once

namespace ebb::calls {

enum class Endpoint {
  kFile,     // has what it will have: a call goes on until all is done, or an error
  kStream,   // bytes that come and go: what has arrived is returned, waiting for more could be for ever
  kMessage,  // each call is one message, of which what does not fit, or fails, is gone
  kDevice,   // may have forgotten what it could not deliver, and may block: terminals, event counters, random numbers
};

// By fstat: any descriptor. A bad one is a file: the call itself says what is wrong.
Endpoint endpoint_of(int fd);
Endpoint endpoint_of_socket(int fd);

}  // namespace ebb::calls
