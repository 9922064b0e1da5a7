// A whole chain of nextn drafts in one call.

#include "shim_internal.h"

#include "llama-ext.h"

#include <algorithm>
#include <cstring>

namespace {

void check_chain(const power_context * context, const power_chain & chain) {
    if (context->kind != POWER_CONTEXT_NEXTN || !context->nextn_on) {
        power::fail(POWER_UNSUPPORTED, "a draft chain needs a nextn context with its nextn tap on");
    }
    power::check_not_null(chain.state, "state");
    power::check_not_null(chain.out_tokens, "out_tokens");
    power::check_sequence_id(context, chain.seq_id);
    const power::Sequence & sequence = context->sequences[(size_t) chain.seq_id];
    if (sequence.stale) {
        power::fail(POWER_STALE, "sequence %d is stale; restore or clear it before drafting", chain.seq_id);
    }
    if (chain.first_pos != sequence.expected_tokens) {
        power::fail(POWER_INVALID_ARGUMENT, "`first_pos` is %d, sequence %d continues at %d", chain.first_pos,
                    chain.seq_id, sequence.expected_tokens);
    }
    if (chain.max_tokens < 1) {
        power::fail(POWER_INVALID_ARGUMENT, "`max_tokens` is %d, expected at least 1", chain.max_tokens);
    }
    const int32_t loaded = llama_model_n_layer_nextn(context->model->llama);
    if (chain.heads < 1 || chain.heads > loaded) {
        power::fail(POWER_INVALID_ARGUMENT, "`heads` is %d, expected 1..%d", chain.heads, loaded);
    }
    if (chain.heads > 1 && (chain.max_tokens > chain.heads || chain.max_tokens > context->batch_rows)) {
        power::fail(POWER_INVALID_ARGUMENT, "`max_tokens` is %d, expected at most %d heads and %d rows",
                    chain.max_tokens, chain.heads, context->batch_rows);
    }
    if (!(chain.p_min >= 0.0f && chain.p_min <= 1.0f)) {
        power::fail(POWER_INVALID_ARGUMENT, "`p_min` is %g, expected 0..1", (double) chain.p_min);
    }
}

// Brings the context's own nextn head back at the end of a chain.
class HeadOfChain {
public:
    explicit HeadOfChain(power_context * context) : context_(context) {}
    ~HeadOfChain() { llama_set_nextn_layer_offset(context_->llama, context_->nextn_head); }
    HeadOfChain(const HeadOfChain &) = delete;
    HeadOfChain & operator=(const HeadOfChain &) = delete;

private:
    power_context * context_;
};

// Rows [first, count) of the chain as prepared in the context's scratch; only the last one wants logits.
power_rows chain_rows(const power_context * context, int32_t first, int32_t count) {
    const size_t width = (size_t) llama_model_n_embd(context->model->llama);
    power_rows rows = {};
    rows.size = sizeof(rows);
    rows.n_rows = count - first;
    rows.tokens = context->draft_tokens.data() + first;
    rows.states = context->draft_states.data() + (size_t) first * width;
    rows.positions = context->draft_positions.data() + first;
    rows.seq_ids = context->draft_seq_ids.data() + first;
    rows.wants_logits = context->draft_wants.data() + first;
    return rows;
}

void put_row(power_context * context, const power_chain & chain, int32_t slot, int32_t step, int32_t token,
             const float * state) {
    const size_t width = (size_t) llama_model_n_embd(context->model->llama);
    context->draft_tokens[(size_t) slot] = token;
    context->draft_positions[(size_t) slot] = chain.first_pos + step;
    context->draft_seq_ids[(size_t) slot] = chain.seq_id;
    memmove(context->draft_states.data() + (size_t) slot * width, state, width * sizeof(float));
}

// Step `step` of the chain. One head feeds the newest row only; several heads rebuild the whole chain under head
// `step`.
int32_t run_step(power_context * context, const power_chain & chain, power::TemporaryRows & written, int32_t step) {
    if (chain.heads == 1) {
        context->draft_wants[0] = 1;
        power::evaluate_rows(context, chain_rows(context, 0, 1));
        return 0;
    }
    if (step > 0) {
        written.drop();
    }
    llama_set_nextn_layer_offset(context->llama, step);
    std::fill_n(context->draft_wants.begin(), step, (int8_t) 0);
    context->draft_wants[(size_t) step] = 1;
    power::evaluate_rows(context, chain_rows(context, 0, step + 1));
    return step;
}

}  // namespace

namespace power {

void draft_chain(power_context * context, power_chain & chain) {
    chain.out_count = 0;
    check_chain(context, chain);
    const HeadOfChain head(context);
    TemporaryRows written(context, chain.seq_id, chain.first_pos);
    const bool wants_probability = chain.p_min > 0.0f || chain.out_probabilities != nullptr;
    int32_t token = chain.token;
    const float * state = chain.state;
    for (int32_t step = 0; step < chain.max_tokens; ++step) {
        put_row(context, chain, chain.heads == 1 ? 0 : step, step, token, state);
        const int32_t row = run_step(context, chain, written, step);
        float probability = 0.0f;
        token = choose_at_row(context, row, wants_probability ? &probability : nullptr).token;
        if (probability < chain.p_min) {
            break;
        }
        chain.out_tokens[step] = token;
        if (chain.out_probabilities != nullptr) {
            chain.out_probabilities[step] = probability;
        }
        chain.out_count = step + 1;
        state = nextn_row(context, row);
    }
    written.drop();
}

}  // namespace power

extern "C" {

power_status power_context_set_nextn_head(power_context * ctx, uint32_t head, power_error * err) {
    return power::guarded(err, [&] {
        power::ContextUse use(ctx);
        if (ctx->kind != POWER_CONTEXT_NEXTN) {
            power::fail(POWER_UNSUPPORTED, "only a nextn context has nextn heads");
        }
        const int32_t loaded = llama_model_n_layer_nextn(ctx->model->llama);
        if (head >= (uint32_t) loaded) {
            power::fail(POWER_INVALID_ARGUMENT, "head %u is not in 0..%d", head, loaded - 1);
        }
        llama_set_nextn_layer_offset(ctx->llama, (int32_t) head);
        ctx->nextn_head = (int32_t) head;
    });
}

power_status power_draft_chain(power_context * ctx, power_chain * chain, power_error * err) {
    return power::guarded(err, [&] {
        power::ContextUse use(ctx);
        power::check_size(chain, "power_chain");
        power::draft_chain(ctx, *chain);
    });
}

}  // extern "C"
