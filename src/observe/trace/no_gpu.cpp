// Lets PyTorch's autograd engine run fake tensors on device `cuda` where there is no driver: hooks that say that one
// GPU is there, and a device guard that does nothing. Loaded before `import torch` (measure.py):
//
//   T=$(python -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])')
//   g++ -shared -fPIC -std=c++17 -I $T/include no_gpu.cpp -o no_gpu.so -L $T/lib -lc10 -ltorch_cpu -Wl,-rpath,$T/lib

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::Stream;

const Device kOnly(DeviceType::CUDA, 0);

struct Hooks : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  int getNumGPUs() const override { return 1; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex getCurrentDevice() const override { return 0; }
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  DeviceType type() const override { return DeviceType::CUDA; }
  Device exchangeDevice(Device) const override { return kOnly; }
  Device getDevice() const override { return kOnly; }
  void setDevice(Device) const override {}
  void uncheckedSetDevice(Device) const noexcept override {}
  Stream getStream(Device) const noexcept override { return Stream(Stream::DEFAULT, kOnly); }
  Stream getDefaultStream(Device) const override { return Stream(Stream::DEFAULT, kOnly); }
  Stream getNewStream(Device, int) const override { return Stream(Stream::DEFAULT, kOnly); }
  Stream exchangeStream(Stream) const noexcept override { return Stream(Stream::DEFAULT, kOnly); }
  DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const Stream&, const DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const DeviceIndex) const noexcept override {}
  bool queryStream(const Stream&) const override { return true; }
  void synchronizeStream(const Stream&) const override {}
};

const at::RegistererCUDAHooksRegistry kRegistered(
    "CUDAHooks", c10::REGISTRY_PREFERRED, at::CUDAHooksRegistry(),
    at::RegistererCUDAHooksRegistry::DefaultCreator<Hooks>);

}  // namespace

extern "C" void install() {
  c10::impl::device_guard_impl_registry[static_cast<int>(DeviceType::CUDA)].store(new Guard());
}
