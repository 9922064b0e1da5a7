// What a CUDA build finds on this machine. A missing driver is a fact here, never a failure.

#include "shim_internal.h"

#ifdef POWER_CUDA

#include <cuda_runtime_api.h>

#include <cstdio>

namespace power {

void compute_capability(const char * device_name, int32_t & major, int32_t & minor) {
    int index = -1;
    if (sscanf(device_name, "CUDA%d", &index) != 1) {
        return;
    }
    int values[2] = {0, 0};
    const bool known = cudaDeviceGetAttribute(&values[0], cudaDevAttrComputeCapabilityMajor, index) == cudaSuccess &&
                       cudaDeviceGetAttribute(&values[1], cudaDevAttrComputeCapabilityMinor, index) == cudaSuccess;
    if (known) {
        major = values[0];
        minor = values[1];
    }
}

}  // namespace power

namespace {

void read_cuda(power_cuda_info & info) {
    int count = 0;
    info.compiled_version = CUDART_VERSION;
    cudaRuntimeGetVersion(&info.runtime_version);
    cudaDriverGetVersion(&info.driver_version);
    const cudaError_t error = cudaGetDeviceCount(&count);
    info.device_count = error == cudaSuccess ? count : 0;
    info.error_code = (int32_t) error;
    if (error != cudaSuccess) {
        power::copy_text(info.error_name, sizeof(info.error_name), cudaGetErrorName(error));
        power::copy_text(info.error_text, sizeof(info.error_text), cudaGetErrorString(error));
        cudaGetLastError();  // the failed search must not surface in a later call
    }
}

}  // namespace

#else

namespace power {

void compute_capability(const char *, int32_t &, int32_t &) {}

}  // namespace power

namespace {

void read_cuda(power_cuda_info &) {}

}  // namespace

#endif

extern "C" power_status power_cuda_info_get(power_cuda_info * info, power_error * err) {
    return power::guarded(err, [&] {
        power::check_size(info, "power_cuda_info");
        *info = power_cuda_info{};
        info->size = sizeof(power_cuda_info);
        read_cuda(*info);
    });
}
