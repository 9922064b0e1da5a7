// Which architectures expose layer inputs and nextn rows.
//
// Read from the pinned source with our patches: the files under src/models that assign `t_layer_inp` and `t_h_nextn`,
// with the classes that reuse their graphs. Enabling a tap on any other architecture aborts the process or yields
// zeros, so nothing is guessed. Opening a tap also probes the context's own graph (taps.cpp); both must agree.

#include "shim_internal.h"

#include <algorithm>
#include <iterator>

namespace {

const char * const kLayerInputs[] = {
    "bailingmoe3",  "deepseek4", "gemma3",     "gemma4",         "gpt-oss",    "hunyuan-dense", "hunyuan_vl",
    "lfm2",         "lfm2moe",   "llama",      "llama-embed",    "mimo2",      "minimax-01",    "minimax-m2",
    "muse-glimmer", "nanbeige",  "nemotron_h", "nemotron_h_moe", "qwen3",      "qwen35",        "qwen35moe",
    "qwen3moe",     "qwen3next", "qwen4exp",
};

const char * const kNextnRows[] = {
    "bailingmoe3", "cohere2moe", "deepseek2", "deepseek2-ocr", "deepseek32", "deepseek4", "dflash", "gemma4",
    "glm-dsa",     "glm4moe",    "glm5-next", "gpt-oss",       "hy_v3",      "mimo2",     "mistral4", "nemotron_h",
    "nemotron_h_moe", "qwen35",  "qwen35moe", "qwen3next",     "step35",
};

// Architectures whose nextn graph asserts that there is exactly one block.
const char * const kOneNextnBlock[] = {
    "bailingmoe3", "cohere2moe", "deepseek2", "deepseek2-ocr", "deepseek32", "deepseek4", "glm-dsa",
    "glm4moe",     "mistral4",   "nemotron_h_moe", "qwen35",   "qwen35moe",  "qwen3next",
};

const char * const kManyNextnBlocks[] = {"hy_v3", "mimo2", "step35"};

// Architectures whose nextn graph takes a head of fewer rows (patches/0008).
const char * const kFewHeadRows[] = {"mimo2", "qwen35", "qwen35moe", "qwen3next"};

template <size_t Count>
bool listed(const char * const (&names)[Count], const std::string & architecture) {
    return std::any_of(std::begin(names), std::end(names), [&](const char * name) { return architecture == name; });
}

}  // namespace

namespace power {

bool exposes_layer_inputs(const std::string & architecture) {
    return listed(kLayerInputs, architecture);
}

bool exposes_nextn_rows(const std::string & architecture) {
    return listed(kNextnRows, architecture);
}

bool takes_few_head_rows(const std::string & architecture) {
    return listed(kFewHeadRows, architecture);
}

int32_t most_nextn_blocks(const std::string & architecture) {
    if (listed(kManyNextnBlocks, architecture)) {
        return INT32_MAX;
    }
    return listed(kOneNextnBlock, architecture) ? 1 : 0;
}

}  // namespace power
