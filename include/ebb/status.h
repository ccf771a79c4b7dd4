// Status: what an operation inside Ebbtide came to, and what its caller should do about it.
//
// Core code returns Status; only the façade (Runtime::open, Runtime::allocate), the PyTorch adapter and the command
// line turn one into an Error, which carries a sentence for the person who has to act on it.
#pragma once

#include <stdexcept>
#include <string>

namespace ebb {

enum class [[nodiscard]] Status : unsigned char{
    kOk,
    kBusy,         // try another block or try later: a page is pinned, a queue is full
    kNoMemory,     // no frame can be had within the memory budget
    kNoSpace,      // flash is full: keep the data in memory
    kIoError,      // the device failed this transfer: retry elsewhere, keep the data
    kCorrupt,      // the bytes read are not the bytes written: never hand them out
    kUnsupported,  // this machine or kernel lacks what was asked for: use the fallback
    kInvalid,      // the caller asked for nonsense: report it
};

const char* name(Status status);

// The one exception type of the façade. `what()` names the cause and the remedy in one sentence or two.
class Error : public std::runtime_error {
 public:
  Error(Status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  Status status() const { return status_; }

 private:
  Status status_;
};

}  // namespace ebb
