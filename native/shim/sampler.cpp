// The target's own samplers: penalties, top-k, typical, top-p, min-p, temperature, draw.

#include "shim_internal.h"

#include <cmath>
#include <memory>

struct power_sampler {
    llama_sampler * chain = nullptr;
    int32_t n_vocab = 0;
};

namespace {

struct ChainDeleter {
    void operator()(llama_sampler * chain) const { llama_sampler_free(chain); }
};

using ChainPointer = std::unique_ptr<llama_sampler, ChainDeleter>;

void check_range(const char * name, float value, float low, float high) {
    if (!(value >= low && value <= high)) {
        power::fail(POWER_INVALID_ARGUMENT, "`%s` is %g, expected %g..%g", name, (double) value, (double) low,
                    (double) high);
    }
}

void check_params(const power_sampler_params & params) {
    check_range("temperature", params.temperature, 0.0f, 1e6f);
    check_range("top_p", params.top_p, 0.0f, 1.0f);
    check_range("min_p", params.min_p, 0.0f, 1.0f);
    check_range("typical_p", params.typical_p, 0.0f, 1.0f);
    check_range("repeat_penalty", params.repeat_penalty, 1e-6f, 1e6f);
    check_range("frequency_penalty", params.frequency_penalty, -1e6f, 1e6f);
    check_range("presence_penalty", params.presence_penalty, -1e6f, 1e6f);
    if (params.top_k < 0 || params.repeat_last_n < 0) {
        power::fail(POWER_INVALID_ARGUMENT, "`top_k` is %d and `repeat_last_n` is %d, expected at least 0", params.top_k,
                    params.repeat_last_n);
    }
    if (params.seed == LLAMA_DEFAULT_SEED) {
        power::fail(POWER_INVALID_ARGUMENT, "seed %u asks the library for a random seed; choose another", params.seed);
    }
}

bool has_penalties(const power_sampler_params & params) {
    return params.repeat_last_n != 0 && (params.repeat_penalty != 1.0f || params.frequency_penalty != 0.0f ||
                                         params.presence_penalty != 0.0f);
}

void add_draw(llama_sampler * chain, const power_sampler_params & params) {
    if (params.temperature == 0.0f) {
        llama_sampler_chain_add(chain, llama_sampler_init_greedy());
        return;
    }
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
    llama_sampler_chain_add(chain, llama_sampler_init_temp(params.temperature));
    llama_sampler_chain_add(chain, llama_sampler_init_dist(params.seed));
}

power_sampler * take(ChainPointer chain, int32_t n_vocab) {
    auto * sampler = new power_sampler();
    sampler->chain = chain.release();
    sampler->n_vocab = n_vocab;
    return sampler;
}

}  // namespace

extern "C" {

power_status power_sampler_open(const power_model * model, const power_sampler_params * params, power_sampler ** out,
                                power_error * err) {
    return power::guarded(err, [&] {
        power::check_not_null(model, "model");
        power::check_not_null(out, "out");
        power::check_size(params, "power_sampler_params");
        *out = nullptr;
        check_params(*params);
        const int32_t n_vocab = llama_vocab_n_tokens(model->vocab);
        llama_sampler_chain_params chain_params = llama_sampler_chain_default_params();
        chain_params.no_perf = true;
        ChainPointer chain(llama_sampler_chain_init(chain_params));
        if (has_penalties(*params)) {
            llama_sampler_chain_add(
                chain.get(), llama_sampler_init_penalties(n_vocab, params->repeat_last_n, params->repeat_penalty,
                                                          params->frequency_penalty, params->presence_penalty));
        }
        add_draw(chain.get(), *params);
        *out = take(std::move(chain), n_vocab);
    });
}

power_status power_sampler_clone(const power_sampler * sampler, power_sampler ** out, power_error * err) {
    return power::guarded(err, [&] {
        power::check_not_null(sampler, "sampler");
        power::check_not_null(out, "out");
        *out = nullptr;
        ChainPointer chain(llama_sampler_clone(sampler->chain));
        if (chain == nullptr) {
            power::fail(POWER_UNSUPPORTED, "the library could not clone the sampler");
        }
        *out = take(std::move(chain), sampler->n_vocab);
    });
}

void power_sampler_close(power_sampler * sampler) {
    if (sampler != nullptr) {
        llama_sampler_free(sampler->chain);
        delete sampler;
    }
}

power_status power_sampler_reset(power_sampler * sampler, power_error * err) {
    return power::guarded(err, [&] {
        power::check_not_null(sampler, "sampler");
        llama_sampler_reset(sampler->chain);
    });
}

power_status power_sampler_accept(power_sampler * sampler, const int32_t * tokens, uint32_t n_tokens,
                                  power_error * err) {
    return power::guarded(err, [&] {
        power::check_not_null(sampler, "sampler");
        if (n_tokens > 0) {
            power::check_not_null(tokens, "tokens");
        }
        for (uint32_t i = 0; i < n_tokens; ++i) {
            if (tokens[i] < 0 || tokens[i] >= sampler->n_vocab) {
                power::fail(POWER_INVALID_ARGUMENT, "token %d is not in 0..%d", tokens[i], sampler->n_vocab - 1);
            }
        }
        for (uint32_t i = 0; i < n_tokens; ++i) {
            llama_sampler_accept(sampler->chain, tokens[i]);
        }
    });
}

power_status power_sampler_sample(power_sampler * sampler, power_context * ctx, int32_t row, int32_t * token,
                                  power_error * err) {
    return power::guarded(err, [&] {
        power::check_not_null(sampler, "sampler");
        power::check_not_null(token, "token");
        power::ContextUse use(ctx);
        if (sampler->n_vocab != llama_vocab_n_tokens(ctx->model->vocab)) {
            power::fail(POWER_INVALID_ARGUMENT, "the sampler's vocabulary has %d tokens, the context's has %d",
                        sampler->n_vocab, llama_vocab_n_tokens(ctx->model->vocab));
        }
        power::choose_at_row(ctx, row, nullptr);
        const power::ComputeClock clock(ctx);
        *token = llama_sampler_sample(sampler->chain, ctx->llama, row);
    });
}

}  // extern "C"
