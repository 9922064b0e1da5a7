// What the files of the sampler share.

#ifndef POWER_SAMPLER_H
#define POWER_SAMPLER_H

#include "shim_internal.h"

#include <string>
#include <vector>

namespace power {

// Every value is in its range, every pointer is there, and the model can do it.
void check_sampler_params(const power_model * model, const power_sampler_params & params);
bool uses_dry(const power_sampler_params & params);
std::vector<std::string> dry_breakers(const power_sampler_params & params);

// The library's samplers after the windows', in its usual order, ending with the choice. Owned by the caller.
llama_sampler * build_chain(const power_sampler_params & params);

}  // namespace power

#endif
