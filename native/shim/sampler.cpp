// The target's own choice: bias, penalties, DRY, the chain, and a grammar that may refuse what was drawn.
//
// What copies of a sampler share: the windows of penalties and DRY follow from the last accepted tokens alone, so every
// copy keeps those tokens, and the windows are filled again when another copy used them last. A copy costs its random
// states and those tokens.

#include "sampler.h"

#include "grammar.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>

namespace {

using power::SamplerPointer;

struct Shared {
    power_model * model;
    int32_t n_vocab = 0;
    std::vector<llama_logit_bias> biases;
    SamplerPointer penalties;            // null when off
    SamplerPointer dry;                  // null when off
    size_t window_tokens = 0;            // the larger of the two windows
    uint64_t filled_for = 0;             // the copy whose tokens the windows hold, 0 = none
    bool typical = false;
    std::vector<llama_token_data> candidates;
    std::atomic<bool> in_use{false};

    explicit Shared(power_model * owner) : model(owner) { ++model->references; }
    ~Shared() { power::model_release(model); }
    Shared(const Shared &) = delete;
    Shared & operator=(const Shared &) = delete;
};

uint64_t next_id() {
    static std::atomic<uint64_t> last{0};
    return ++last;
}

}  // namespace

struct power_sampler {
    std::shared_ptr<Shared> shared;
    SamplerPointer chain;
    std::unique_ptr<power::GrammarState> grammar;  // null without a grammar
    std::vector<llama_token> recent;               // at least the last window_tokens accepted tokens
    uint64_t id = next_id();
};

namespace {

// Copies share buffers: a second caller is refused, never queued.
class SamplerUse {
public:
    explicit SamplerUse(const power_sampler * sampler) {
        power::check_not_null(sampler, "sampler");
        shared_ = sampler->shared.get();
        if (shared_->in_use.exchange(true, std::memory_order_acquire)) {
            power::fail(POWER_BUSY, "another thread uses the sampler or a copy of it");
        }
    }
    ~SamplerUse() { shared_->in_use.store(false, std::memory_order_release); }
    SamplerUse(const SamplerUse &) = delete;
    SamplerUse & operator=(const SamplerUse &) = delete;

private:
    Shared * shared_;
};

void build_windows(Shared & shared, const power_sampler_params & params) {
    if (params.repeat_last_n > 0 && (params.repeat_penalty != 1.0f || params.frequency_penalty != 0.0f ||
                                     params.presence_penalty != 0.0f)) {
        shared.penalties.reset(llama_sampler_init_penalties(shared.n_vocab, params.repeat_last_n, params.repeat_penalty,
                                                            params.frequency_penalty, params.presence_penalty));
        shared.window_tokens = (size_t) params.repeat_last_n;
    }
    if (power::uses_dry(params)) {
        shared.dry = shared.model->dry_sources.copy(shared.model->vocab, params);
        shared.window_tokens = std::max(shared.window_tokens, (size_t) params.dry_penalty_last_n);
    }
}

void give_to_windows(Shared & shared, llama_token token) {
    llama_sampler_accept(shared.penalties.get(), token);
    llama_sampler_accept(shared.dry.get(), token);
}

void fill_windows(power_sampler & sampler) {
    Shared & shared = *sampler.shared;
    if (shared.window_tokens == 0 || shared.filled_for == sampler.id) {
        return;
    }
    shared.filled_for = 0;  // a failure on the way leaves them to be filled again
    llama_sampler_reset(shared.penalties.get());
    llama_sampler_reset(shared.dry.get());
    for (const llama_token token : sampler.recent) {
        give_to_windows(shared, token);
    }
    shared.filled_for = sampler.id;
}

void remember(power_sampler & sampler, llama_token token) {
    Shared & shared = *sampler.shared;
    if (shared.window_tokens == 0) {
        return;
    }
    if (sampler.recent.size() >= 2 * shared.window_tokens) {
        sampler.recent.erase(sampler.recent.begin(), sampler.recent.end() - (std::ptrdiff_t) shared.window_tokens);
    }
    sampler.recent.push_back(token);
    if (shared.filled_for == sampler.id) {
        give_to_windows(shared, token);
    }
}

// Only what is possible stays: filters of the library compute with the logarithms of all probabilities.
void keep_above(llama_token_data_array & candidates, float floor) {
    llama_token_data * end = candidates.data + candidates.size;
    end = std::remove_if(candidates.data, end, [&](const auto & candidate) { return !(candidate.logit > floor); });
    candidates.size = (size_t) (end - candidates.data);
}

llama_token_data_array candidates_of_row(Shared & shared, const float * logits) {
    std::vector<llama_token_data> & all = shared.candidates;
    all.resize((size_t) shared.n_vocab);
    for (llama_token token = 0; token < shared.n_vocab; ++token) {
        all[(size_t) token] = {token, logits[token], 0.0f};
    }
    for (const llama_logit_bias & bias : shared.biases) {
        all[(size_t) bias.token].logit += bias.bias;
    }
    llama_token_data_array candidates{all.data(), all.size(), -1, false};
    if (!shared.biases.empty()) {
        keep_above(candidates, -INFINITY);
    }
    return candidates;
}

void apply_windows(Shared & shared, llama_token_data_array & candidates) {
    if (shared.penalties) {
        llama_sampler_apply(shared.penalties.get(), &candidates);
    }
    if (shared.dry) {
        llama_sampler_apply(shared.dry.get(), &candidates);
    }
    if (!shared.typical || candidates.size == 0) {
        return;
    }
    float largest = candidates.data[0].logit;
    for (size_t i = 1; i < candidates.size; ++i) {
        largest = std::max(largest, candidates.data[i].logit);
    }
    keep_above(candidates, largest - 87.0f);  // exp(-87) is the last that is not rounded to a subnormal number
}

llama_token draw(power_sampler & sampler, llama_token_data_array & candidates, int32_t row) {
    apply_windows(*sampler.shared, candidates);
    if (candidates.size == 0) {
        power::fail(POWER_NO_FINITE_LOGIT, "row %d: biases, penalties and grammar together allow no token", row);
    }
    llama_sampler_apply(sampler.chain.get(), &candidates);
    if (candidates.selected < 0 || (size_t) candidates.selected >= candidates.size) {
        power::fail(POWER_NO_FINITE_LOGIT, "row %d: no token is left to choose from", row);
    }
    const llama_token_data & chosen = candidates.data[candidates.selected];
    if (!std::isfinite(chosen.logit) || !std::isfinite(chosen.p)) {
        power::fail(POWER_NO_FINITE_LOGIT, "row %d: biases and penalties leave no finite logit to choose by", row);
    }
    return chosen.id;
}

llama_token choose(power_sampler & sampler, const float * logits, int32_t row) {
    fill_windows(sampler);
    llama_token_data_array candidates = candidates_of_row(*sampler.shared, logits);
    const llama_token token = draw(sampler, candidates, row);
    if (sampler.grammar == nullptr || sampler.grammar->allows(token)) {
        return token;
    }
    candidates = candidates_of_row(*sampler.shared, logits);
    sampler.grammar->apply(&candidates);
    keep_above(candidates, -INFINITY);
    return draw(sampler, candidates, row);
}

}  // namespace

int32_t power::sample_at_row(power_sampler * sampler, power_context * context, int32_t row) {
    const SamplerUse use(sampler);
    const int32_t n_vocab = llama_vocab_n_tokens(context->model->vocab);
    if (sampler->shared->n_vocab != n_vocab) {
        fail(POWER_INVALID_ARGUMENT, "the sampler's vocabulary has %d tokens, the context's has %d",
             sampler->shared->n_vocab, n_vocab);
    }
    choose_at_row(context, row, nullptr);
    const float * logits = logits_of_row(context, row);
    const ComputeClock clock(context);
    const llama_token chosen = choose(*sampler, logits, row);
    if (sampler->grammar != nullptr) {
        sampler->grammar->accept(chosen);
    }
    remember(*sampler, chosen);
    return chosen;
}

extern "C" {

power_status power_sampler_open(power_model * model, const power_sampler_params * params, power_sampler ** out,
                                power_error * err) {
    return power::guarded(err, [&] {
        power::check_not_null(model, "model");
        power::check_not_null(out, "out");
        power::check_size(params, "power_sampler_params");
        *out = nullptr;
        power::check_sampler_params(model, *params);
        auto sampler = std::make_unique<power_sampler>();
        sampler->shared = std::make_shared<Shared>(model);
        Shared & shared = *sampler->shared;
        shared.n_vocab = llama_vocab_n_tokens(model->vocab);
        shared.typical = params->typical_p < 1.0f;
        for (uint32_t i = 0; i < params->n_biases; ++i) {
            shared.biases.push_back({params->bias_tokens[i], params->bias_values[i]});
        }
        build_windows(shared, *params);
        sampler->chain.reset(power::build_chain(*params));
        if (params->grammar_bytes > 0) {
            const std::string text(params->grammar, params->grammar_bytes);
            sampler->grammar = std::make_unique<power::GrammarState>(model->vocab, text);
        }
        *out = sampler.release();
    });
}

power_status power_sampler_clone(const power_sampler * sampler, power_sampler ** out, power_error * err) {
    return power::guarded(err, [&] {
        const SamplerUse use(sampler);
        power::check_not_null(out, "out");
        *out = nullptr;
        auto copy = std::make_unique<power_sampler>();
        copy->shared = sampler->shared;
        copy->chain.reset(llama_sampler_clone(sampler->chain.get()));
        copy->recent = sampler->recent;
        if (sampler->grammar != nullptr) {
            copy->grammar = std::make_unique<power::GrammarState>(*sampler->grammar);
        }
        *out = copy.release();
    });
}

void power_sampler_close(power_sampler * sampler) {
    delete sampler;
}

power_status power_sampler_reset(power_sampler * sampler, power_error * err) {
    return power::guarded(err, [&] {
        const SamplerUse use(sampler);
        llama_sampler_reset(sampler->chain.get());
        sampler->recent.clear();
        sampler->shared->filled_for = 0;
        if (sampler->grammar != nullptr) {
            sampler->grammar->reset();
        }
    });
}

power_status power_sampler_accept(power_sampler * sampler, const int32_t * tokens, uint32_t n_tokens,
                                  power_error * err) {
    return power::guarded(err, [&] {
        const SamplerUse use(sampler);
        if (n_tokens > 0) {
            power::check_not_null(tokens, "tokens");
        }
        const int32_t n_vocab = sampler->shared->n_vocab;
        for (uint32_t i = 0; i < n_tokens; ++i) {
            if (tokens[i] < 0 || tokens[i] >= n_vocab) {
                power::fail(POWER_INVALID_ARGUMENT, "token %d is not in 0..%d", tokens[i], n_vocab - 1);
            }
        }
        for (uint32_t i = 0; i < n_tokens; ++i) {
            remember(*sampler, tokens[i]);
        }
    });
}

power_status power_sampler_sample(power_sampler * sampler, power_context * ctx, int32_t row, int32_t * token,
                                  power_error * err) {
    return power::guarded(err, [&] {
        power::check_not_null(token, "token");
        power::ContextUse context_use(ctx);
        *token = power::sample_at_row(sampler, ctx, row);
    });
}

}  // extern "C"
