// Greedy choice in the evaluation's own graph, so that a row's token crosses to the host instead of its logits.

#include "shim_internal.h"

namespace {

using SamplerOwner = std::unique_ptr<llama_sampler, void (*)(llama_sampler *)>;

// A chain serves one attachment: the library ends the process when one is attached twice.
SamplerOwner new_greedy_chain() {
    SamplerOwner chain(llama_sampler_chain_init(llama_sampler_chain_default_params()), llama_sampler_free);
    llama_sampler_chain_add(chain.get(), llama_sampler_init_greedy());
    return chain;
}

void detach_all(power_context * context) {
    for (int32_t seq_id = 0; seq_id < context->sequence_count; ++seq_id) {
        llama_set_sampler(context->llama, seq_id, nullptr);
    }
    context->device_choosers.clear();
    context->chooses_on_device = false;
}

void attach_all(power_context * context) {
    for (int32_t seq_id = 0; seq_id < context->sequence_count; ++seq_id) {
        context->device_choosers.push_back(new_greedy_chain());
        if (!llama_set_sampler(context->llama, seq_id, context->device_choosers.back().get())) {
            detach_all(context);
            power::fail(POWER_UNSUPPORTED, "the device that holds the output layer cannot choose tokens");
        }
    }
    context->chooses_on_device = true;
}

}  // namespace

namespace power {

int32_t device_choice_at_row(power_context * context, int32_t row) {
    check_output_row(context, row);
    const ComputeClock clock(context);
    const int32_t token = llama_get_sampled_token_ith(context->llama, row);
    if (token < 0 || token >= llama_vocab_n_tokens(context->model->vocab)) {
        fail(POWER_COMPUTE_FAILED, "the device chose token %d at row %d, which is no token", token, row);
    }
    return token;
}

}  // namespace power

extern "C" power_status power_context_choose_on_device(power_context * ctx, uint32_t on, power_error * err) {
    return power::guarded(err, [&] {
        power::ContextUse use(ctx);
        if ((on != 0) == ctx->chooses_on_device) {
            return;
        }
        ctx->last_rows = 0;
        if (on != 0) {
            attach_all(ctx);
        } else {
            detach_all(ctx);
        }
    });
}
