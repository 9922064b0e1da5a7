// Where a model's tensors go.

#ifndef POWER_PLACEMENT_H
#define POWER_PLACEMENT_H

#include "shim_internal.h"

#include <deque>
#include <regex>

namespace power {

// Checks device and placements of the parameters and holds what the library's parameters point at while it loads.
class Placement {
public:
    explicit Placement(const power_model_params & params);
    Placement(const Placement &) = delete;
    Placement & operator=(const Placement &) = delete;

    void apply(llama_model_params & native);

private:
    void choose_devices(const power_model_params & params);
    void add(const std::string & line);
    ggml_backend_buffer_type_t buffer_by_name(const std::string & name) const;
    bool uses(ggml_backend_dev_t device) const;

    bool chosen_ = false;  // devices_ replaces the library's own choice
    std::vector<ggml_backend_dev_t> devices_;
    std::deque<std::string> patterns_;  // never moves: rules_ points into it
    std::vector<llama_model_tensor_buft_override> rules_;
};

}  // namespace power

#endif
