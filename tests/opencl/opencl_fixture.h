// What the tests of the OpenCL driver share: a device behind the layer, in a process whose kernel cache is temporary.
//
// A test whose machine has no OpenCL is skipped with the reason.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ebb/opencl/device.h"
#include "layer/layer.h"

namespace ebb::opencl_test {

// The one layer of this process; null where there is no OpenCL, with `reason`.
Layer* find_layer(std::string& reason);

class OpenClTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // A device behind the layer.
  std::shared_ptr<OpenClDevice> open(OpenClOptions options = {});

  Layer* layer_ = nullptr;
};

// The ways to the device, with what the layer has to pretend for each.
struct Way {
  const char* name;
  OpenClPath path;
  bool copies_host_memory = false;
  bool as_gpu = false;
};
std::vector<Way> ways();
void pretend(Layer& layer, const Way& way);

class OpenClWays : public OpenClTest, public testing::WithParamInterface<Way> {
 protected:
  void SetUp() override;

  std::shared_ptr<OpenClDevice> device_;
};

// y[i] = by * x[i] + y[i], and other small kernels.
extern const char* const kSource;
// What the call throws; fails the test if it does not.
Error error_of(const std::function<void()>& call);

}  // namespace ebb::opencl_test
