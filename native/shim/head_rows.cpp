// Nextn heads of fewer rows: the first ones as a view of the model's matrix, or named ones copied out of it.

#include "shim_internal.h"

#include "ggml-alloc.h"
#include "llama-context.h"
#include "llama-model.h"

#include <map>
#include <numeric>

namespace {

// The matrix that the nextn block's graph multiplies by.
ggml_tensor * head_of_block(const llama_model & model, int32_t block) {
    const llama_layer & layer = model.layers[(size_t) ((int32_t) model.hparams.n_layer() + block)];
    return layer.nextn.shared_head_head != nullptr ? layer.nextn.shared_head_head : model.output;
}

void check_tokens(const power_model * model, const power_context_params & params) {
    const int32_t n_vocab = llama_vocab_n_tokens(model->vocab);
    std::vector<bool> named((size_t) n_vocab, false);
    for (uint32_t row = 0; row < params.head_rows; ++row) {
        const int32_t token = params.head_tokens[row];
        if (token < 0 || token >= n_vocab) {
            power::fail(POWER_INVALID_ARGUMENT, "`head_tokens` names token %d at row %u, expected 0..%d", token, row,
                        n_vocab - 1);
        }
        if (named[(size_t) token]) {
            power::fail(POWER_INVALID_ARGUMENT, "`head_tokens` names token %d twice, again at row %u", token, row);
        }
        named[(size_t) token] = true;
    }
}

// Heads of fewer rows by the whole ones: blocks may share one.
using HeadsByWhole = std::map<ggml_tensor *, ggml_tensor *>;

ggml_tensor * few_rows_of(ggml_tensor * whole, const power_context_params & params, ggml_context * tensors,
                          HeadsByWhole & few) {
    ggml_tensor *& head = few[whole];
    if (head == nullptr && params.head_tokens == nullptr) {
        head = ggml_view_2d(tensors, whole, whole->ne[0], params.head_rows, whole->nb[1], 0);
    } else if (head == nullptr) {
        head = ggml_new_tensor_2d(tensors, whole->type, whole->ne[0], params.head_rows);
    }
    return head;
}

void allocate(power::FewHeadRows & head, const ggml_backend_buffer_t beside) {
    const ggml_backend_buffer_type_t place = ggml_backend_buffer_get_type(beside);
    head.buffer.reset(ggml_backend_alloc_ctx_tensors_from_buft(head.tensors.get(), place));
    if (head.buffer == nullptr) {
        power::fail(POWER_OUT_OF_MEMORY, "no memory for a head of fewer rows");
    }
    ggml_backend_buffer_set_usage(head.buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
}

void copy_rows(const ggml_tensor * from, const std::vector<int32_t> & rows, ggml_tensor * to) {
    std::vector<char> row(from->nb[1]);
    for (size_t i = 0; i < rows.size(); ++i) {
        ggml_backend_tensor_get(from, row.data(), (size_t) rows[i] * from->nb[1], row.size());
        ggml_backend_tensor_set(to, row.data(), i * to->nb[1], row.size());
    }
}

void fill(ggml_tensor * tokens, const HeadsByWhole & few, const power_context_params & params) {
    std::vector<int32_t> ids(params.head_rows);
    if (params.head_tokens == nullptr) {
        std::iota(ids.begin(), ids.end(), 0);
    } else {
        ids.assign(params.head_tokens, params.head_tokens + params.head_rows);
        for (const auto & [whole, head] : few) {
            copy_rows(whole, ids, head);
        }
    }
    ggml_backend_tensor_set(tokens, ids.data(), 0, ids.size() * sizeof(ids[0]));
}

}  // namespace

namespace power {

void check_head_rows(const power_model * model, const power_context_params & params) {
    if (params.head_rows == 0) {
        if (params.head_tokens != nullptr) {
            fail(POWER_INVALID_ARGUMENT, "`head_tokens` is set, but `head_rows` is 0");
        }
        return;
    }
    if (params.kind != POWER_CONTEXT_NEXTN) {
        fail(POWER_INVALID_ARGUMENT, "`head_rows` is %u, but only a nextn context has a head of its own",
             params.head_rows);
    }
    if (!takes_few_head_rows(model->architecture)) {
        fail(POWER_UNSUPPORTED, "the nextn graph of architecture '%s' always computes its whole head",
             model->architecture.c_str());
    }
    for (int32_t block = 0; block < llama_model_n_layer_nextn(model->llama); ++block) {
        const ggml_tensor * whole = head_of_block(*model->llama, block);
        if (whole == nullptr) {
            fail(POWER_UNSUPPORTED, "the model has no output matrix");
        }
        if (whole->extra != nullptr) {  // what a backend keeps beside a tensor whose rows it stores in its own way
            fail(POWER_UNSUPPORTED, "rows cannot be taken out of tensor '%s', which was repacked into %s", whole->name,
                 ggml_backend_buffer_name(whole->buffer));
        }
    }
    const auto n_vocab = (uint32_t) llama_vocab_n_tokens(model->vocab);
    if (params.head_rows > n_vocab) {
        fail(POWER_INVALID_ARGUMENT, "`head_rows` is %u, expected 0..%u", params.head_rows, n_vocab);
    }
    if (params.head_tokens != nullptr) {
        check_tokens(model, params);
    }
}

void take_few_head_rows(power_context * context, const power_context_params & params) {
    if (params.head_rows == 0) {
        return;
    }
    const llama_model & model = *context->model->llama;
    const int32_t blocks = llama_model_n_layer_nextn(&model);
    const ggml_init_params room = {ggml_tensor_overhead() * (size_t) (blocks + 1), nullptr, true};
    context->few_head_rows.tensors.reset(ggml_init(room));
    ggml_context * tensors = context->few_head_rows.tensors.get();

    HeadsByWhole few;
    std::vector<ggml_tensor *> heads;
    for (int32_t block = 0; block < blocks; ++block) {
        heads.push_back(few_rows_of(head_of_block(model, block), params, tensors, few));
    }
    ggml_tensor * tokens = ggml_new_tensor_1d(tensors, GGML_TYPE_I32, params.head_rows);
    allocate(context->few_head_rows, head_of_block(model, 0)->buffer);
    fill(tokens, few, params);
    context->llama->set_nextn_heads(std::move(heads), tokens);
}

}  // namespace power
