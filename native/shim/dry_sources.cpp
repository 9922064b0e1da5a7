// Ready DRY samplers of a model, to be copied.

#include "dry_sources.h"

#include "sampler.h"

#include <algorithm>

namespace power {

namespace {

constexpr size_t kMostSources = 4;

template <typename Value> void append(std::string & key, Value value) {
    key.append(reinterpret_cast<const char *>(&value), sizeof(value));
}

std::string key_of(const power_sampler_params & params) {
    std::string key;
    append(key, params.dry_multiplier);
    append(key, params.dry_base);
    append(key, params.dry_allowed_length);
    append(key, params.dry_penalty_last_n);
    if (params.dry_breakers_bytes > 0) {
        key.append(params.dry_breakers, params.dry_breakers_bytes);
    }
    return key;
}

SamplerPointer make(const llama_vocab * vocab, const power_sampler_params & params) {
    const std::vector<std::string> breakers = dry_breakers(params);
    std::vector<const char *> texts;
    for (const std::string & breaker : breakers) {
        texts.push_back(breaker.c_str());
    }
    return SamplerPointer(llama_sampler_init_dry(vocab, params.dry_multiplier, params.dry_base,
                                                 params.dry_allowed_length, params.dry_penalty_last_n, texts.data(),
                                                 texts.size()));
}

}  // namespace

SamplerPointer DrySources::copy(const llama_vocab * vocab, const power_sampler_params & params) {
    const std::string key = key_of(params);
    const std::lock_guard<std::mutex> lock(mutex_);
    auto found = std::find_if(sources_.begin(), sources_.end(),
                              [&](const Source & source) { return source.key == key; });
    if (found == sources_.end()) {
        SamplerPointer made = make(vocab, params);
        if (sources_.size() == kMostSources) {
            sources_.erase(sources_.begin());
        }
        found = sources_.insert(sources_.end(), Source{key, std::move(made)});
    }
    std::rotate(found, found + 1, sources_.end());
    return SamplerPointer(llama_sampler_clone(sources_.back().sampler.get()));
}

}  // namespace power
