// What a sampler can be asked for: everything is checked before anything of the library is built.

#include "sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace power {

namespace {

constexpr size_t kMostBreakerBytes = 40;  // the library cuts longer ones
constexpr uint32_t kMostGrammarBytes = 1u << 20;

void check_range(const char * name, float value, float low, float high) {
    if (!(value >= low && value <= high)) {
        fail(POWER_INVALID_ARGUMENT, "`%s` is %g, expected %g..%g", name, (double) value, (double) low, (double) high);
    }
}

void check_count(const char * name, int32_t value) {
    if (value < 0) {
        fail(POWER_INVALID_ARGUMENT, "`%s` is %d, expected at least 0", name, value);
    }
}

void check_numbers(const power_sampler_params & params) {
    if (params.temperature != 0.0f) {
        check_range("temperature", params.temperature, 1e-20f, 1e6f);
    }
    check_range("top_p", params.top_p, 0.0f, 1.0f);
    check_range("min_p", params.min_p, 0.0f, 1.0f);
    check_range("typical_p", params.typical_p, 0.0f, 1.0f);
    check_range("repeat_penalty", params.repeat_penalty, 1e-6f, 1e6f);
    check_range("frequency_penalty", params.frequency_penalty, -1e6f, 1e6f);
    check_range("presence_penalty", params.presence_penalty, -1e6f, 1e6f);
    check_range("dry_multiplier", params.dry_multiplier, 0.0f, 1e6f);
    check_range("dry_base", params.dry_base, 1.0f, 1e6f);
    check_range("xtc_probability", params.xtc_probability, 0.0f, 1.0f);
    check_range("xtc_threshold", params.xtc_threshold, 0.0f, 1.0f);
    check_count("top_k", params.top_k);
    check_count("repeat_last_n", params.repeat_last_n);
    check_count("dry_allowed_length", params.dry_allowed_length);
    check_count("dry_penalty_last_n", params.dry_penalty_last_n);
    if (params.seed == LLAMA_DEFAULT_SEED) {
        fail(POWER_INVALID_ARGUMENT, "seed %u asks the library for a random seed; choose another", params.seed);
    }
}

void check_biases(const power_sampler_params & params, int32_t n_vocab) {
    if (params.n_biases > (uint32_t) n_vocab) {
        fail(POWER_INVALID_ARGUMENT, "%u biases for %d tokens", params.n_biases, n_vocab);
    }
    if (params.n_biases > 0) {
        check_not_null(params.bias_tokens, "bias_tokens");
        check_not_null(params.bias_values, "bias_values");
    }
    std::vector<bool> biased((size_t) n_vocab, false);
    for (uint32_t i = 0; i < params.n_biases; ++i) {
        const int32_t token = params.bias_tokens[i];
        if (token < 0 || token >= n_vocab || biased[(size_t) token]) {
            fail(POWER_INVALID_ARGUMENT, "the bias of token %d: expected each token of 0..%d at most once", token,
                 n_vocab - 1);
        }
        biased[(size_t) token] = true;
        if (!(params.bias_values[i] <= 1e6f)) {
            fail(POWER_INVALID_ARGUMENT, "the bias of token %d is %g, expected at most 1e6", token,
                 (double) params.bias_values[i]);
        }
    }
}

void check_text(const char * name, const char * text, uint32_t bytes, uint32_t most_bytes) {
    if (bytes > 0) {
        check_not_null(text, name);
    }
    if (bytes > most_bytes) {
        fail(POWER_INVALID_ARGUMENT, "`%s` has %u bytes, expected at most %u", name, bytes, most_bytes);
    }
}

}  // namespace

std::vector<std::string> dry_breakers(const power_sampler_params & params) {
    std::vector<std::string> breakers;
    const char * end = params.dry_breakers + params.dry_breakers_bytes;
    for (const char * at = params.dry_breakers; at < end;) {
        const char * stop = std::find(at, end, '\0');
        if (stop == end || stop == at || (size_t) (stop - at) > kMostBreakerBytes) {
            fail(POWER_INVALID_ARGUMENT, "a sequence breaker of %zu bytes, expected 1..%zu and a 0 after each",
                 (size_t) (stop - at), kMostBreakerBytes);
        }
        breakers.emplace_back(at, stop);
        at = stop + 1;
    }
    return breakers;
}

bool uses_dry(const power_sampler_params & params) {
    return params.dry_multiplier > 0.0f && params.dry_penalty_last_n > 0;
}

void check_sampler_params(const power_model * model, const power_sampler_params & params) {
    check_numbers(params);
    check_biases(params, llama_vocab_n_tokens(model->vocab));
    check_text("dry_breakers", params.dry_breakers, params.dry_breakers_bytes, 4096);
    check_text("grammar", params.grammar, params.grammar_bytes, kMostGrammarBytes);
    const bool has_breakers = uses_dry(params) && !dry_breakers(params).empty();
    if (has_breakers && llama_vocab_type(model->vocab) == LLAMA_VOCAB_TYPE_NONE) {
        fail(POWER_UNSUPPORTED, "the model has no tokenizer, so its tokens have no text to look for breakers in");
    }
}

}  // namespace power
