// What a block drafter's file may hold: the library aborts on the rest while it builds its graph.

#include "shim_internal.h"

#include "ggml-backend.h"
#include "llama-model.h"

#include <algorithm>
#include <cstdlib>

namespace {

using power::fail;

int32_t block_size(const llama_model * model) {
    const auto found = model->gguf_kv.find("dflash.block_size");
    return found == model->gguf_kv.end() ? 0 : atoi(found->second.c_str());
}

void check_shape(const llama_model * model) {
    const llama_hparams & hparams = model->hparams;
    if (hparams.dsv4_hc_mult > 0) {
        fail(POWER_UNSUPPORTED, "draft models with hyper-connections are not supported");
    }
    if (hparams.n_embd_head_k() != hparams.n_embd_head_v()) {
        fail(POWER_UNSUPPORTED, "the draft model's keys are %u wide per head and its values %u, expected equal widths",
             hparams.n_embd_head_k(), hparams.n_embd_head_v());
    }
    const int32_t n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    if (hparams.dflash_selector_top_k > (uint32_t) n_vocab) {
        fail(POWER_UNSUPPORTED, "the draft model keeps %u candidates of a vocabulary of %d",
             hparams.dflash_selector_top_k, n_vocab);
    }
}

void check_convolutions(const llama_model * model) {
    for (const llama_layer & layer : model->layers) {
        for (const ggml_tensor * base : {layer.dflash_attn_conv_base, layer.dflash_ffn_conv_base}) {
            if (base != nullptr && base->type != GGML_TYPE_F32) {
                fail(POWER_UNSUPPORTED, "tensor '%s' is of type %s, expected f32", base->name,
                     ggml_type_name(base->type));
            }
        }
    }
}

// Convolutions and the chain over a block are unrolled in the graph, whose room for nodes does not grow with them.
void check_graph_room(const llama_model * model, const power_context_params & params) {
    constexpr size_t kNodesBesides = 114;
    constexpr size_t kNodesPerLayer = 40;
    constexpr size_t kNodesPerChainedRow = 20;
    constexpr size_t kNodesPerTap = 8;
    constexpr size_t kNodesPerConvolution = 10;
    const llama_hparams & hparams = model->hparams;
    const int32_t rows = std::min(block_size(model), power::physical_rows(params));
    size_t nodes = kNodesBesides + kNodesPerLayer * model->layers.size();
    if (model->dspark_markov_w1 != nullptr) {
        if (rows < 1) {
            fail(POWER_UNSUPPORTED, "`dflash.block_size` is %d, expected at least 1", block_size(model));
        }
        nodes += kNodesPerChainedRow * (size_t) rows;
    }
    if (model->dflash_selector_hidden != nullptr) {
        const size_t taps = std::min(hparams.dflash_conv_kernel_size, (uint32_t) power::physical_rows(params));
        nodes += 4 * model->layers.size() * (kNodesPerTap * taps + kNodesPerConvolution);
    }
    const size_t per_tensor = hparams.dflash_selector_rank > 0 ? 12 : 8;
    const size_t room = std::max<size_t>(1024, per_tensor * model->n_tensors());
    if (nodes > room) {
        fail(POWER_UNSUPPORTED,
             "a block of %d rows with convolutions over %u is too long for the library's graph: about %zu nodes, there "
             "is room for %zu",
             rows, hparams.dflash_conv_kernel_size, nodes, room);
    }
}

// Entries of the map from the draft's vocabulary to the target's are written at without a check.
void check_vocabulary_map(const power_model * model) {
    const ggml_tensor * map = model->llama->d2t;
    if (map == nullptr) {
        return;
    }
    if (map->type != GGML_TYPE_I64) {
        fail(POWER_UNSUPPORTED, "tensor 'd2t' is of type %s, expected i64", ggml_type_name(map->type));
    }
    std::vector<int64_t> tokens((size_t) ggml_nelements(map));
    ggml_backend_tensor_get(map, tokens.data(), 0, ggml_nbytes(map));
    const int64_t n_vocab = llama_vocab_n_tokens(model->vocab);
    for (const int64_t token : tokens) {
        if (token < 0 || token >= n_vocab) {
            fail(POWER_UNSUPPORTED, "tensor 'd2t' holds the token %lld, expected 0..%lld", (long long) token,
                 (long long) (n_vocab - 1));
        }
    }
}

}  // namespace

namespace power {

void check_block_model(const power_model * model, const power_context_params & params) {
    check_shape(model->llama);
    check_convolutions(model->llama);
    check_graph_room(model->llama, params);
    check_vocabulary_map(model);
}

}  // namespace power
