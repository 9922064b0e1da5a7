// Opening and closing contexts, and their facts. What may be opened at all is decided in open_checks.cpp.

#include "shim_internal.h"

#include "llama-context.h"
#include "llama-kv-cache-iswa.h"
#include "llama-kv-cache.h"
#include "llama-memory-hybrid-iswa.h"
#include "llama-memory-hybrid.h"
#include "llama-memory-recurrent.h"
#include "llama-model.h"

#include <algorithm>
#include <memory>

namespace {

// The callback runs once per graph node, on the compute threads' behalf.
bool should_abort(void * data) {
    auto * context = (power_context *) data;
    if (context->abort_flag.load(std::memory_order_relaxed)) {
        return true;
    }
    if (context->abort_after.load(std::memory_order_relaxed) < 0) {
        return false;
    }
    return context->abort_after.fetch_sub(1, std::memory_order_relaxed) == 0;
}

llama_context_params native_params(const power_context_params & params) {
    llama_context_params native = llama_context_default_params();
    native.n_ctx = params.ctx_tokens * params.sequences;
    native.n_batch = params.batch_rows;
    native.n_ubatch = (uint32_t) power::physical_rows(params);
    native.n_seq_max = params.sequences;
    native.n_rs_seq = params.kind == POWER_CONTEXT_NEXTN ? 0 : params.snapshots;
    native.n_outputs_max = params.output_rows;
    native.n_outputs_max_per_seq = 0;
    if (params.threads > 0) {
        native.n_threads = params.threads;
        native.n_threads_batch = params.threads;
    }
    if (params.rows_threads > 0) {
        native.n_threads_batch = params.rows_threads;
    }
    native.type_k = power::kv_type(params);
    native.type_v = native.type_k;
    native.ctx_type = params.kind == POWER_CONTEXT_NEXTN ? LLAMA_CONTEXT_TYPE_MTP : LLAMA_CONTEXT_TYPE_DEFAULT;
    native.pooling_type = LLAMA_POOLING_TYPE_NONE;  // a file's own pooling would leave the nextn rows unwritten
    native.flash_attn_type = (llama_flash_attn_type) params.flash_attention;
    native.no_perf = true;
    native.swa_full = false;
    native.kv_unified = false;
    native.ctx_other = params.other != nullptr ? params.other->llama : nullptr;
    return native;
}

// Only memories whose rollback was studied are taken; on the others a truncation could not be trusted.
void locate_memory(power_context * context) {
    llama_memory_i * memory = context->llama->get_memory();
    context->memory = memory;
    if (auto * recurrent = dynamic_cast<llama_memory_recurrent *>(memory)) {
        context->recurrent = recurrent;
    } else if (auto * hybrid = dynamic_cast<llama_memory_hybrid *>(memory)) {
        context->attention = hybrid->get_mem_attn();
        context->recurrent = hybrid->get_mem_recr();
    } else if (auto * hybrid_iswa = dynamic_cast<llama_memory_hybrid_iswa *>(memory)) {
        context->attention = hybrid_iswa->get_mem_attn();
        context->recurrent = hybrid_iswa->get_mem_recr();
    } else if (dynamic_cast<llama_kv_cache *>(memory) != nullptr ||
               dynamic_cast<llama_kv_cache_iswa *>(memory) != nullptr) {
        context->attention = memory;
    } else {
        power::fail(POWER_UNSUPPORTED, "architecture '%s' keeps a kind of memory that this library cannot roll back",
                    context->model->architecture.c_str());
    }
}

void size_arrays(power_context * context) {
    const size_t rows = (size_t) context->batch_rows;
    const size_t sequences = (size_t) context->sequence_count;
    context->sequences.resize(sequences);
    context->row_counts.assign(sequences, 0);
    context->touched.reserve(sequences);
    context->cells_before.assign(sequences, -1);
    context->positions.resize(rows * (size_t) context->position_sections);
    context->seq_ids.resize(rows);
    context->seq_id_pointers.resize(rows);
    context->seq_id_counts.assign(rows, 1);
    context->wants_logits.assign(rows, 0);
    for (size_t row = 0; row < rows; ++row) {
        context->seq_id_pointers[row] = &context->seq_ids[row];
    }
    context->layer_on.assign((size_t) llama_model_n_layer(context->model->llama) + 1, 0);
    context->draft_tokens.resize(rows);
    context->draft_positions.resize(rows);
    context->draft_seq_ids.resize(rows);
    context->draft_wants.resize(rows);
    if (context->kind == POWER_CONTEXT_NEXTN) {
        context->draft_states.resize(rows * (size_t) llama_model_n_embd(context->model->llama));
    }
}

void read_granted(power_context * context, const power_context_params & params) {
    llama_context * llama = context->llama;
    context->ctx_tokens = (int32_t) llama_n_ctx_seq(llama);
    context->batch_rows = (int32_t) llama_n_batch(llama);
    context->physical_rows = (int32_t) llama_n_ubatch(llama);
    context->sequence_count = (int32_t) llama_n_seq_max(llama);
    context->snapshots = (int32_t) llama_n_rs_seq(llama);
    context->output_rows = params.output_rows != 0 ? (int32_t) params.output_rows : context->batch_rows;
    context->output_rows = std::min(context->output_rows, context->batch_rows);
    context->position_sections = (int32_t) context->model->llama->hparams.n_pos_per_embd();
}

void open_native(power_context * context, const power_context_params & params) {
    llama_model * model = context->model->llama;
    context->llama = llama_init_from_model(model, native_params(params));
    if (context->llama == nullptr) {
        power::fail(POWER_LOAD_FAILED, "cannot open a context of %u tokens for %u sequences", params.ctx_tokens,
                    params.sequences);
    }
    locate_memory(context);
    read_granted(context, params);
    size_arrays(context);
    llama_set_causal_attn(context->llama, params.causal != 0);
    llama_set_abort_callback(context->llama, should_abort, context);
    power::place_threads(context, params);
    if (context->kind == POWER_CONTEXT_NEXTN) {
        if (context->recurrent != nullptr) {
            power::fail(POWER_UNSUPPORTED, "the nextn blocks of architecture '%s' keep recurrent state",
                        context->model->architecture.c_str());
        }
        power::take_few_head_rows(context, params);
        llama_set_embeddings_nextn(context->llama, true, true);
        context->nextn_on = true;
        context->nextn_masked = true;
    }
    if (context->model->architecture == "dflash") {
        context->block_rows = (int32_t) model->hparams.dflash_block_size;
    }
}

}  // namespace

namespace power {

ContextUse::ContextUse(power_context * context) : context_(context) {
    check_not_null(context, "ctx");
    if (context->in_use.exchange(true, std::memory_order_acquire)) {
        context_ = nullptr;
        fail(POWER_BUSY, "context is in use by another thread");
    }
}

ContextUse::~ContextUse() {
    if (context_ != nullptr) {
        context_->in_use.store(false, std::memory_order_release);
    }
}

void context_release(power_context * context) {
    if (--context->references != 0) {
        return;
    }
    if (context->llama != nullptr) {
        llama_free(context->llama);
    }
    context->few_head_rows = {};
    if (context->other != nullptr) {
        context_release(context->other);
    }
    model_release(context->model);
    delete context;
}

}  // namespace power

extern "C" {

power_status power_context_open(power_model * model, const power_context_params * params, power_context ** out,
                                power_error * err) {
    return power::guarded(err, [&] {
        power::check_not_null(model, "model");
        power::check_not_null(out, "out");
        power::check_size(params, "power_context_params");
        *out = nullptr;
        power::check_open(model, *params);
        std::unique_ptr<power_context, void (*)(power_context *)> context(new power_context(), power::context_release);
        context->model = model;
        ++model->references;
        context->kind = params->kind;
        if (params->other != nullptr) {
            context->other = params->other;
            ++params->other->references;
        }
        open_native(context.get(), *params);
        *out = context.release();
    });
}

void power_context_close(power_context * ctx) {
    if (ctx != nullptr) {
        power::context_release(ctx);
    }
}

power_status power_context_info_get(power_context * ctx, power_context_info * info, power_error * err) {
    return power::guarded(err, [&] {
        power::ContextUse use(ctx);
        power::check_size(info, "power_context_info");
        info->ctx_tokens = (uint32_t) ctx->ctx_tokens;
        info->batch_rows = (uint32_t) ctx->batch_rows;
        info->physical_rows = (uint32_t) ctx->physical_rows;
        info->sequences = (uint32_t) ctx->sequence_count;
        info->snapshots = (uint32_t) ctx->snapshots;
        info->threads = llama_n_threads(ctx->llama);
        info->flash_attention = ctx->llama->get_cparams().flash_attn ? 1 : 0;
        info->exact = ctx->exact ? 1 : 0;
        info->rows_threads = llama_n_threads_batch(ctx->llama);
        info->memory_bytes = 0;
        for (const auto & [buffer_type, bytes] : llama_get_memory_breakdown(ctx->llama)) {
            (void) buffer_type;
            info->memory_bytes += bytes.context + bytes.compute;
        }
        const ggml_backend_buffer_t head = ctx->few_head_rows.buffer.get();
        info->head_bytes = head != nullptr ? ggml_backend_buffer_get_size(head) : 0;
        info->memory_bytes += info->head_bytes;
    });
}

void power_context_abort(power_context * ctx) {
    if (ctx != nullptr) {
        ctx->abort_flag.store(true);
    }
}

void power_context_clear_abort(power_context * ctx) {
    if (ctx != nullptr) {
        ctx->abort_flag.store(false);
    }
}

void power_context_abort_after(power_context * ctx, int64_t nodes) {
    if (ctx != nullptr) {
        ctx->abort_after.store(nodes);
    }
}

void power_context_counters(power_context * ctx, uint64_t * compute_ns, uint64_t * evaluations) {
    if (ctx == nullptr) {
        return;
    }
    if (compute_ns != nullptr) {
        *compute_ns = ctx->compute_ns.load();
    }
    if (evaluations != nullptr) {
        *evaluations = ctx->evaluations.load();
    }
}

}  // extern "C"
