// Hidden rows: nextn state rows and layer inputs.
//
// The library aborts on a layer that the graph does not expose and returns zeros for nextn rows that it never computes.
// So a tap is opened only when the architecture is listed and the context's own reserved graph has the tensor.

#include "shim_internal.h"

#include "llama-context.h"
#include "llama-ext.h"
#include "llama-graph.h"
#include "llama-model.h"

#include <cstring>

namespace {

// Rebuild the reserved graph with the current taps. Setting a layer to what it is marks the reserve as needed.
void reserve_again(power_context * context) {
    llama_set_embeddings_layer_inp(context->llama, 0, context->layer_on[0] != 0);
    context->llama->sched_reserve();
}

bool graph_has_nextn(power_context * context) {
    const llama_model * model = context->model->llama;
    if (context->model->architecture == "dflash") {
        // The reserved graph is wider than a block and leaves these heads out: ask for their tensors instead.
        return model->dspark_conf_proj != nullptr || model->dflash_selector_hidden != nullptr;
    }
    return context->llama->get_gf_res_reserve()->get_h_nextn() != nullptr;
}

bool graph_has_layer(power_context * context, uint32_t layer) {
    return context->llama->get_gf_res_reserve()->get_layer_inp((int) layer) != nullptr;
}

void set_nextn(power_context * context, bool on, bool masked) {
    llama_set_embeddings_nextn(context->llama, on, masked);
    context->nextn_on = on;
    context->nextn_masked = masked;
    context->last_rows = 0;
    reserve_again(context);
}

void check_layer(const power_context * context, uint32_t layer) {
    if (layer >= context->layer_on.size()) {
        power::fail(POWER_INVALID_ARGUMENT, "layer %u is not in 0..%zu", layer, context->layer_on.size() - 1);
    }
}

void check_tapped(const power_context * context, const uint32_t * layers, uint32_t n_layers) {
    if (n_layers == 0) {
        power::fail(POWER_INVALID_ARGUMENT, "`n_layers` is 0, expected at least 1");
    }
    for (uint32_t at = 0; at < n_layers; ++at) {
        check_layer(context, layers[at]);
        if (context->layer_on[layers[at]] == 0) {
            power::fail(POWER_INVALID_ARGUMENT, "layer %u is not tapped in this context", layers[at]);
        }
    }
}

void check_range(const power_context * context, int32_t first_row, int32_t n_rows) {
    if (first_row < 0 || n_rows < 1 || n_rows > context->last_rows || first_row > context->last_rows - n_rows) {
        power::fail(POWER_INVALID_ARGUMENT, "rows %d..%d are not in the last evaluation of %d rows", first_row,
                    first_row + n_rows - 1, context->last_rows);
    }
}

// Rows of one layer into column `at` of out[n_rows][n_layers][n_embd].
void copy_layer(power_context * context, uint32_t layer, int32_t first_row, int32_t n_rows, float * out,
                uint32_t n_layers, uint32_t at) {
    const size_t width = (size_t) llama_model_n_embd(context->model->llama);
    const float * rows = llama_get_embeddings_layer_inp(context->llama, layer) + (size_t) first_row * width;
    for (size_t row = 0; row < (size_t) n_rows; ++row) {
        memcpy(out + (row * n_layers + at) * width, rows + row * width, width * sizeof(float));
    }
}

}  // namespace

namespace power {

// The ABI has one width for state rows.
void check_state_width(const power_model * model) {
    const int32_t width = llama_model_n_embd(model->llama);
    const int32_t row_width = llama_model_n_embd_out(model->llama);
    if (row_width != width) {
        fail(POWER_UNSUPPORTED, "nextn rows of architecture '%s' have %d values, expected the model's width %d",
             model->architecture.c_str(), row_width, width);
    }
}

const float * nextn_row(power_context * context, int32_t row) {
    if (!context->nextn_on) {
        fail(POWER_INVALID_ARGUMENT, "nextn rows are not tapped in this context");
    }
    check_range(context, row, 1);
    if (context->nextn_masked && context->wants_logits[(size_t) row] == 0) {
        fail(POWER_INVALID_ARGUMENT, "row %d did not want logits and the nextn tap keeps only those that do", row);
    }
    const ComputeClock clock(context);
    const float * values = llama_get_embeddings_nextn_ith(context->llama, row);
    if (values == nullptr) {
        fail(POWER_COMPUTE_FAILED, "the library has no nextn row for row %d", row);
    }
    return values;
}

void read_nextn(power_context * context, int32_t first_row, int32_t n_rows, float * out) {
    check_range(context, first_row, n_rows);
    const size_t width = (size_t) llama_model_n_embd(context->model->llama);
    for (int32_t i = 0; i < n_rows; ++i) {
        memcpy(out + (size_t) i * width, nextn_row(context, first_row + i), width * sizeof(float));
    }
}

void read_layers(power_context * context, const uint32_t * layers, uint32_t n_layers, int32_t first_row, int32_t n_rows,
                 float * out) {
    check_tapped(context, layers, n_layers);
    check_range(context, first_row, n_rows);
    const ComputeClock clock(context);
    for (uint32_t at = 0; at < n_layers; ++at) {
        copy_layer(context, layers[at], first_row, n_rows, out, n_layers, at);
    }
}

}  // namespace power

extern "C" {

power_status power_context_tap_nextn(power_context * ctx, uint32_t on, uint32_t masked, power_error * err) {
    return power::guarded(err, [&] {
        power::ContextUse use(ctx);
        if (on == 0) {
            set_nextn(ctx, false, false);
            return;
        }
        const std::string & architecture = ctx->model->architecture;
        if (!power::exposes_nextn_rows(architecture)) {
            power::fail(POWER_UNSUPPORTED, "architecture '%s' exposes no nextn rows", architecture.c_str());
        }
        power::check_state_width(ctx->model);
        const bool was_on = ctx->nextn_on;
        const bool was_masked = ctx->nextn_masked;
        set_nextn(ctx, true, masked != 0);
        if (!graph_has_nextn(ctx)) {
            set_nextn(ctx, was_on, was_masked);
            power::fail(POWER_UNSUPPORTED, "this model of architecture '%s' computes no nextn rows",
                        architecture.c_str());
        }
    });
}

power_status power_context_tap_layer(power_context * ctx, uint32_t layer, uint32_t on, power_error * err) {
    return power::guarded(err, [&] {
        power::ContextUse use(ctx);
        check_layer(ctx, layer);
        const std::string & architecture = ctx->model->architecture;
        if (on != 0 && (!power::exposes_layer_inputs(architecture) || !graph_has_layer(ctx, layer))) {
            power::fail(POWER_UNSUPPORTED, "architecture '%s' does not expose the input of layer %u",
                        architecture.c_str(), layer);
        }
        llama_set_embeddings_layer_inp(ctx->llama, layer, on != 0);
        ctx->layer_on[layer] = on != 0 ? 1 : 0;
        ctx->last_rows = 0;
        ctx->llama->sched_reserve();
    });
}

power_status power_read_nextn(power_context * ctx, int32_t first_row, int32_t n_rows, float * out, power_error * err) {
    return power::guarded(err, [&] {
        power::ContextUse use(ctx);
        power::check_not_null(out, "out");
        power::read_nextn(ctx, first_row, n_rows, out);
    });
}

power_status power_read_layers(power_context * ctx, const uint32_t * layers, uint32_t n_layers, int32_t first_row,
                               int32_t n_rows, float * out, power_error * err) {
    return power::guarded(err, [&] {
        power::ContextUse use(ctx);
        power::check_not_null(layers, "layers");
        power::check_not_null(out, "out");
        power::read_layers(ctx, layers, n_layers, first_row, n_rows, out);
    });
}

int32_t power_exposes_layer_inputs(const char * architecture) {
    return architecture != nullptr && power::exposes_layer_inputs(architecture) ? 1 : 0;
}

}  // extern "C"
