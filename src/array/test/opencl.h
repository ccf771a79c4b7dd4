// An OpenCL device for tests of generated kernels. The loader library is opened at run time: where there is none, or no
// device, open() says so and the test is skipped.
//
// Used by one thread; owns context, queue and whatever it makes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "array/source/source.h"

namespace ebb::array_test {

class OpenClDevice {
 public:
  // Null with `reason` where there is no device.
  static std::unique_ptr<OpenClDevice> open(std::string* reason);
  virtual ~OpenClDevice() = default;

  virtual std::string device_name() const = 0;
  virtual bool has_f64() const = 0;
  virtual bool divides_exactly() const = 0;  // division and square root of f32 are correctly rounded
  // The bytes of the result. Throws std::runtime_error with what the compiler said.
  virtual std::vector<std::byte> run(const array::KernelSource& source) = 0;
};

}  // namespace ebb::array_test
