// What may be opened: everything that the library would abort on, or read wrongly, is refused here first.

#include "shim_internal.h"

#include "llama-model.h"

#include <algorithm>
#include <cstring>

namespace {

void check_counts(const power_context_params & params) {
    const auto in_range = [](uint32_t value, const char * name, uint32_t low, uint32_t high) {
        if (value < low || value > high) {
            power::fail(POWER_INVALID_ARGUMENT, "`%s` is %u, expected %u..%u", name, value, low, high);
        }
    };
    in_range(params.kind, "kind", POWER_CONTEXT_TARGET, POWER_CONTEXT_DRAFT);
    in_range(params.ctx_tokens, "ctx_tokens", 1, INT32_MAX / 4);
    in_range(params.batch_rows, "batch_rows", 1, INT32_MAX / 4);
    in_range(params.sequences, "sequences", 1, (uint32_t) llama_max_parallel_sequences());
    in_range(params.snapshots, "snapshots", 0, 1024);
    if (params.output_rows != 0) {
        in_range(params.output_rows, "output_rows", params.sequences, params.batch_rows);
    }
    if ((uint64_t) params.ctx_tokens * params.sequences > INT32_MAX / 4) {
        power::fail(POWER_INVALID_ARGUMENT, "`ctx_tokens` %u for %u sequences is too many", params.ctx_tokens,
                    params.sequences);
    }
    if (params.flash_attention < -1 || params.flash_attention > 1) {
        power::fail(POWER_INVALID_ARGUMENT, "`flash_attention` is %d, expected -1, 0 or 1", params.flash_attention);
    }
}

// Rows that pass through the graph at once; the library aborts when they are too few.
void check_rows(const power_context_params & params) {
    const bool given = params.physical_rows != 0;
    if (given && params.physical_rows > params.batch_rows) {
        power::fail(POWER_INVALID_ARGUMENT, "`physical_rows` is %u, expected 0..%u", params.physical_rows,
                    params.batch_rows);
    }
    if (given && params.causal == 0 && params.physical_rows < params.batch_rows) {
        power::fail(POWER_INVALID_ARGUMENT,
                    "`physical_rows` is %u, but without causal attention an evaluation of %u rows is computed at once",
                    params.physical_rows, params.batch_rows);
    }
    const char * name = given ? "physical_rows" : "batch_rows";
    const auto rows = (uint32_t) power::physical_rows(params);
    // The library keeps the last snapshots + 1 rows of a sequence together and needs one more.
    if (params.snapshots > 0 && rows < params.snapshots + 2) {
        power::fail(POWER_INVALID_ARGUMENT, "`%s` is %u, expected at least `snapshots` + 2 = %u", name, rows,
                    params.snapshots + 2);
    }
    if (rows < params.sequences) {
        power::fail(POWER_INVALID_ARGUMENT, "`%s` is %u, expected at least one row for each of %u sequences", name,
                    rows, params.sequences);
    }
}

// The library would refuse a block that does not divide a head with a line in its log only.
void check_kv_type(const power_model * model, const power_context_params & params) {
    const ggml_type type = power::kv_type(params);
    if (!ggml_is_quantized(type)) {
        return;
    }
    if (params.flash_attention == 0) {
        power::fail(POWER_INVALID_ARGUMENT, "`kv_type` is '%s', which needs flash attention", params.kv_type);
    }
    const llama_hparams & hparams = model->llama->hparams;
    const auto block = (uint32_t) ggml_blck_size(type);
    for (uint32_t layer = 0; layer < hparams.n_layer(); ++layer) {
        const uint32_t keys = hparams.n_embd_head_k(layer);
        const uint32_t values = hparams.n_embd_head_v(layer);
        if (keys % block != 0 || values % block != 0) {
            power::fail(POWER_UNSUPPORTED,
                        "`kv_type` is '%s' with blocks of %u, which do not divide a head of layer %u (keys %u, values %u)",
                        params.kv_type, block, layer, keys, values);
        }
    }
}

void check_nextn_model(const power_model * model) {
    if (!model->nextn_loaded) {
        power::fail(POWER_UNSUPPORTED, "the model has no loaded nextn layers; open it with `load_nextn` = 1");
    }
    const int32_t blocks = llama_model_n_layer_nextn(model->llama);
    const int32_t most = power::most_nextn_blocks(model->architecture);
    if (blocks > most) {
        power::fail(POWER_UNSUPPORTED, "architecture '%s' runs at most %d nextn blocks, the model has %d",
                    model->architecture.c_str(), most, blocks);
    }
    power::check_state_width(model);
}

// A drafter without its own embeddings or head reads the other context's; the library checks none of this.
void check_shared_tensors(const power_model * model, const power_context * other) {
    const bool shares = model->llama->tok_embd == nullptr || model->llama->output == nullptr;
    if (!shares) {
        return;
    }
    if (other == nullptr) {
        power::fail(POWER_INVALID_ARGUMENT,
                    "the draft model has no embeddings or head of its own: `other` must be set");
    }
    const llama_model * target = other->model->llama;
    if (target->tok_embd == nullptr || target->output == nullptr) {
        power::fail(POWER_UNSUPPORTED, "the other context's model has no embeddings or head to share");
    }
    const int32_t width = llama_model_n_embd(model->llama);
    const int32_t target_width = llama_model_n_embd(target);
    const int32_t vocabulary = llama_vocab_n_tokens(model->vocab);
    const int32_t target_vocabulary = llama_vocab_n_tokens(other->model->vocab);
    if (width != target_width || vocabulary != target_vocabulary) {
        power::fail(POWER_UNSUPPORTED,
                    "the draft model (width %d, vocabulary %d) cannot share tensors of the other context's model "
                    "(width %d, vocabulary %d)",
                    width, vocabulary, target_width, target_vocabulary);
    }
}

void check_architecture(const power_model * model, const power_context_params & params) {
    const std::string & name = model->architecture;
    if (name == "gemma4-assistant") {
        power::fail(POWER_UNSUPPORTED, "architecture '%s' shares its target's memory, which is not supported",
                    name.c_str());
    }
    if (params.kind == POWER_CONTEXT_NEXTN) {
        check_nextn_model(model);
    }
    if (name == "dflash" || name == "eagle3") {
        if (params.kind != POWER_CONTEXT_DRAFT) {
            power::fail(POWER_INVALID_ARGUMENT, "architecture '%s' needs kind POWER_CONTEXT_DRAFT", name.c_str());
        }
        check_shared_tensors(model, params.other);
        power::check_block_model(model);
    } else if (llama_model_has_encoder(model->llama)) {
        power::fail(POWER_UNSUPPORTED, "architecture '%s' has an encoder, which is not supported", name.c_str());
    }
}

}  // namespace

namespace power {

int32_t physical_rows(const power_context_params & params) {
    const uint32_t asked = params.physical_rows != 0 ? params.physical_rows : params.batch_rows;
    return (int32_t) std::min(asked, params.ctx_tokens * params.sequences);
}

// Types whose rows the library writes and flash attention reads.
ggml_type kv_type(const power_context_params & params) {
    static constexpr ggml_type kTypes[] = {GGML_TYPE_F16,  GGML_TYPE_F32,  GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0,
                                           GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_IQ4_NL};
    if (params.kv_type == nullptr) {
        return GGML_TYPE_F16;
    }
    std::string known;
    for (const ggml_type type : kTypes) {
        if (strcmp(ggml_type_name(type), params.kv_type) == 0) {
            return type;
        }
        known += std::string(known.empty() ? "" : ", ") + ggml_type_name(type);
    }
    fail(POWER_INVALID_ARGUMENT, "`kv_type` is '%s', expected one of %s", params.kv_type, known.c_str());
}

void check_open(const power_model * model, const power_context_params & params) {
    check_counts(params);
    check_rows(params);
    check_processors(params);
    check_kv_type(model, params);
    check_architecture(model, params);
    check_head_rows(model, params);
}

}  // namespace power
