// What was built and what it runs on.

#include "shim_internal.h"

#include "ggml-backend.h"

#include <cstring>

#ifndef POWER_LLAMA_COMMIT
#define POWER_LLAMA_COMMIT "unknown"
#endif
#ifndef POWER_CONTENT_KEY
#define POWER_CONTENT_KEY "unknown"
#endif
#ifndef POWER_CMAKE_ARGS
#define POWER_CMAKE_ARGS "unknown"
#endif
#ifndef POWER_COMPILER
#define POWER_COMPILER "unknown"
#endif

namespace {

std::string cpu_features() {
    ggml_backend_reg_t registry = ggml_backend_reg_by_name("CPU");
    if (registry == nullptr) {
        return "";
    }
    auto get_features =
        (ggml_backend_get_features_t) ggml_backend_reg_get_proc_address(registry, "ggml_backend_get_features");
    if (get_features == nullptr) {
        return "";
    }
    std::string text;
    for (const ggml_backend_feature * feature = get_features(registry); feature->name != nullptr; ++feature) {
        if (!text.empty()) {
            text += ' ';
        }
        text += std::string(feature->name) + "=" + feature->value;
    }
    return text;
}

int32_t device_type(ggml_backend_dev_t device) {
    switch (ggml_backend_dev_type(device)) {
        case GGML_BACKEND_DEVICE_TYPE_CPU:
            return 0;
        case GGML_BACKEND_DEVICE_TYPE_GPU:
            return 1;
        case GGML_BACKEND_DEVICE_TYPE_IGPU:
            return 2;
        default:
            return 3;
    }
}

}  // namespace

extern "C" {

power_status power_build_info_get(power_build_info * info, power_error * err) {
    return power::guarded(err, [&] {
        power::check_size(info, "power_build_info");
        info->abi_version = POWER_ABI_VERSION;
        info->gpu_offload = llama_supports_gpu_offload() ? 1 : 0;
        info->reserved = 0;
        power::copy_text(info->llama_commit, sizeof(info->llama_commit), POWER_LLAMA_COMMIT);
        power::copy_text(info->llama_version, sizeof(info->llama_version), llama_version());
        power::copy_text(info->content_key, sizeof(info->content_key), POWER_CONTENT_KEY);
        power::copy_text(info->compiler, sizeof(info->compiler), POWER_COMPILER);
        power::copy_text(info->cmake_args, sizeof(info->cmake_args), POWER_CMAKE_ARGS);
        power::copy_text(info->cpu_features, sizeof(info->cpu_features), cpu_features());
    });
}

uint32_t power_device_count(void) {
    power::library_init();
    return (uint32_t) ggml_backend_dev_count();
}

power_status power_device_get(uint32_t index, power_device_info * info, power_error * err) {
    return power::guarded(err, [&] {
        power::check_size(info, "power_device_info");
        if (index >= ggml_backend_dev_count()) {
            power::fail(POWER_INVALID_ARGUMENT, "device %u does not exist, there are %zu", index,
                        ggml_backend_dev_count());
        }
        ggml_backend_dev_t device = ggml_backend_dev_get(index);
        size_t free_bytes = 0;
        size_t total_bytes = 0;
        ggml_backend_dev_memory(device, &free_bytes, &total_bytes);
        info->type = device_type(device);
        info->memory_free_bytes = free_bytes;
        info->memory_total_bytes = total_bytes;
        info->compute_major = 0;
        info->compute_minor = 0;
        power::compute_capability(ggml_backend_dev_name(device), info->compute_major, info->compute_minor);
        ggml_backend_dev_props props = {};
        ggml_backend_dev_get_props(device, &props);
        power::copy_text(info->bus_id, sizeof(info->bus_id), props.device_id != nullptr ? props.device_id : "");
        power::copy_text(info->name, sizeof(info->name), ggml_backend_dev_name(device));
        power::copy_text(info->description, sizeof(info->description), ggml_backend_dev_description(device));
    });
}

}  // extern "C"
