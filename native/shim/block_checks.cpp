// What a block drafter's file may hold: the library aborts on the rest while it builds its graph.

#include "shim_internal.h"

#include "ggml-backend.h"
#include "llama-model.h"

namespace {

using power::fail;

void check_shape(const llama_model * model) {
    const llama_hparams & hparams = model->hparams;
    if (hparams.dsv4_hc_mult > 0) {
        fail(POWER_UNSUPPORTED, "draft models with hyper-connections are not supported");
    }
    if (hparams.n_embd_head_k() != hparams.n_embd_head_v()) {
        fail(POWER_UNSUPPORTED, "the draft model's keys are %u wide per head and its values %u, expected equal widths",
             hparams.n_embd_head_k(), hparams.n_embd_head_v());
    }
    const uint32_t least_rows = model->dspark_markov_w1 != nullptr ? 1 : 0;
    if (hparams.dflash_block_size < least_rows || hparams.dflash_block_size > INT32_MAX) {
        fail(POWER_UNSUPPORTED, "`dflash.block_size` is %u, expected %u..%d", hparams.dflash_block_size, least_rows,
             INT32_MAX);
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

void check_block_model(const power_model * model) {
    check_shape(model->llama);
    check_convolutions(model->llama);
    check_vocabulary_map(model);
}

}  // namespace power
