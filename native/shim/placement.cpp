// Where a model's tensors go: the devices that are used, and the buffers that named tensors are put into.

#include "placement.h"

#include "ggml-backend.h"

#include <sstream>

namespace {

constexpr size_t kMostPatternBytes = 1024;  // compiling a pattern recurses once per parenthesis

bool computes_layers(ggml_backend_dev_t device) {
    const auto type = ggml_backend_dev_type(device);
    return type == GGML_BACKEND_DEVICE_TYPE_GPU || type == GGML_BACKEND_DEVICE_TYPE_IGPU;
}

// By its name, or by its number among the GPUs.
ggml_backend_dev_t find_gpu(const std::string & wanted) {
    std::string known;
    size_t number = 0;
    for (size_t index = 0; index < ggml_backend_dev_count(); ++index) {
        ggml_backend_dev_t device = ggml_backend_dev_get(index);
        if (!computes_layers(device)) {
            continue;
        }
        const char * name = ggml_backend_dev_name(device);
        if (wanted == name || wanted == std::to_string(number)) {
            return device;
        }
        known += std::string(known.empty() ? "" : ", ") + name;
        ++number;
    }
    power::fail(POWER_INVALID_ARGUMENT, "there is no GPU '%s'; there %s", wanted.c_str(),
                number == 0 ? "is none that this library can use" : ("are: " + known).c_str());
}

std::regex compiled(const std::string & pattern) {
    try {
        return std::regex(pattern);
    } catch (const std::regex_error & error) {
        power::fail(POWER_INVALID_ARGUMENT, "`placements`: '%s' is no regular expression: %s", pattern.c_str(),
                    error.what());
    }
}

}  // namespace

namespace power {

Placement::Placement(const power_model_params & params) {
    choose_devices(params);
    std::istringstream lines(params.placements != nullptr ? params.placements : "");
    for (std::string line; std::getline(lines, line);) {
        add(line);
    }
    if (!rules_.empty()) {
        rules_.push_back({nullptr, nullptr});
    }
}

void Placement::choose_devices(const power_model_params & params) {
    if (params.device != nullptr) {
        if (params.gpu_layers == 0) {
            fail(POWER_INVALID_ARGUMENT, "the GPU '%s' is named, but `gpu_layers` is 0", params.device);
        }
        devices_ = {find_gpu(params.device), nullptr};
        chosen_ = true;
    } else if (params.gpu_layers == 0) {
        // By default the library computes parts of a large batch on a GPU even when no layer is there.
        devices_ = {nullptr};
        chosen_ = true;
    }
}

void Placement::add(const std::string & line) {
    const size_t split = line.rfind('=');
    if (split == std::string::npos || split == 0 || split + 1 == line.size()) {
        fail(POWER_INVALID_ARGUMENT, "`placements` has the line '%s', expected PATTERN=BUFFER", line.c_str());
    }
    if (split > kMostPatternBytes) {
        fail(POWER_INVALID_ARGUMENT, "`placements` has a pattern of %zu bytes, expected at most %zu", split,
             kMostPatternBytes);
    }
    if (rules_.size() + 1 >= llama_max_tensor_buft_overrides()) {
        fail(POWER_INVALID_ARGUMENT, "`placements` has more than %zu lines", llama_max_tensor_buft_overrides() - 1);
    }
    patterns_.push_back(line.substr(0, split));
    compiled(patterns_.back());
    rules_.push_back({patterns_.back().c_str(), buffer_by_name(line.substr(split + 1))});
}

// Buffers of the CPU and of the devices in use: a tensor anywhere else could not be computed with.
ggml_backend_buffer_type_t Placement::buffer_by_name(const std::string & name) const {
    std::string known;
    for (size_t index = 0; index < ggml_backend_dev_count(); ++index) {
        ggml_backend_dev_t device = ggml_backend_dev_get(index);
        if (!uses(device)) {
            continue;
        }
        ggml_backend_buffer_type_t type = ggml_backend_dev_buffer_type(device);
        if (type != nullptr && name == ggml_backend_buft_name(type)) {
            return type;
        }
        known += std::string(known.empty() ? "" : ", ") + (type != nullptr ? ggml_backend_buft_name(type) : "");
    }
    fail(POWER_INVALID_ARGUMENT, "`placements` names the buffer '%s'; the model may use: %s", name.c_str(),
         known.c_str());
}

bool Placement::uses(ggml_backend_dev_t device) const {
    if (ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU) {
        return true;
    }
    if (!computes_layers(device)) {
        return false;
    }
    return !chosen_ || device == devices_.front();
}

void Placement::apply(llama_model_params & native) {
    if (chosen_) {
        native.devices = devices_.data();
    }
    if (!rules_.empty()) {
        native.tensor_buft_overrides = rules_.data();
    }
}

}  // namespace power
