// Ready DRY samplers of a model, to be copied.

#ifndef POWER_DRY_SOURCES_H
#define POWER_DRY_SOURCES_H

#include "power_shim.h"

#include "llama.h"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace power {

struct SamplerDeleter {
    void operator()(llama_sampler * sampler) const { llama_sampler_free(sampler); }
};

using SamplerPointer = std::unique_ptr<llama_sampler, SamplerDeleter>;

// Making a DRY sampler looks for its breakers in every token of the vocabulary, which takes longer than many requests;
// copying one does not. A few sources are kept, the one that was used last at the end.
class DrySources {
public:
    SamplerPointer copy(const llama_vocab * vocab, const power_sampler_params & params);

private:
    struct Source {
        std::string key;
        SamplerPointer sampler;
    };

    std::mutex mutex_;
    std::vector<Source> sources_;
};

}  // namespace power

#endif
