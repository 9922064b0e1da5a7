// The chain behind the windows: top-k, typical, top-p, min-p, XTC, temperature, draw.

#include "sampler.h"

namespace power {

namespace {

// XTC has a random stream of its own: with the draw's seed both would read the same numbers.
uint32_t xtc_seed(uint32_t seed) {
    const uint32_t other = seed ^ 0x9e3779b9u;
    return other == LLAMA_DEFAULT_SEED ? 0x9e3779b9u : other;
}

bool uses_xtc(const power_sampler_params & params) {
    return params.xtc_probability > 0.0f && params.xtc_threshold <= 0.5f;
}

void add_filters(llama_sampler * chain, const power_sampler_params & params) {
    if (params.top_k > 0) {
        llama_sampler_chain_add(chain, llama_sampler_init_top_k(params.top_k));
    }
    if (params.typical_p < 1.0f) {
        llama_sampler_chain_add(chain, llama_sampler_init_typical(params.typical_p, 1));
    }
    if (params.top_p < 1.0f) {
        llama_sampler_chain_add(chain, llama_sampler_init_top_p(params.top_p, 1));
    }
    if (params.min_p > 0.0f) {
        llama_sampler_chain_add(chain, llama_sampler_init_min_p(params.min_p, 1));
    }
    if (uses_xtc(params)) {
        llama_sampler_chain_add(
            chain, llama_sampler_init_xtc(params.xtc_probability, params.xtc_threshold, 1, xtc_seed(params.seed)));
    }
}

}  // namespace

llama_sampler * build_chain(const power_sampler_params & params) {
    llama_sampler_chain_params chain_params = llama_sampler_chain_default_params();
    chain_params.no_perf = true;
    llama_sampler * chain = llama_sampler_chain_init(chain_params);
    const bool greedy = params.temperature == 0.0f;
    // The other filters always keep the best token, so without these two a greedy choice does not need them.
    if (!greedy || params.typical_p < 1.0f || uses_xtc(params)) {
        add_filters(chain, params);
    }
    if (greedy) {
        llama_sampler_chain_add(chain, llama_sampler_init_greedy());
    } else {
        llama_sampler_chain_add(chain, llama_sampler_init_temp(params.temperature));
        llama_sampler_chain_add(chain, llama_sampler_init_dist(params.seed));
    }
    return chain;
}

}  // namespace power
