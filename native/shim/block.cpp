// A whole block of drafts in one call.

#include "shim_internal.h"

#include "llama-ext.h"

#include <algorithm>
#include <cmath>

namespace {

using power::fail;

void check_range(const char * name, int32_t value, int32_t low, int32_t high) {
    if (value < low || value > high) {
        fail(POWER_INVALID_ARGUMENT, "`%s` is %d, expected %d..%d", name, value, low, high);
    }
}

void check_sequence(const power_context * context, const power_block & block) {
    if (context->kind != POWER_CONTEXT_DRAFT) {
        fail(POWER_UNSUPPORTED, "a block draft needs a draft context");
    }
    if (context->recurrent != nullptr) {
        fail(POWER_UNSUPPORTED, "architecture '%s' keeps recurrent state, from which a block cannot be dropped",
             context->model->architecture.c_str());
    }
    power::check_sequence_id(context, block.seq_id);
    const power::Sequence & sequence = context->sequences[(size_t) block.seq_id];
    if (sequence.stale) {
        fail(POWER_STALE, "sequence %d is stale; restore or clear it before drafting", block.seq_id);
    }
    if (block.first_pos != sequence.expected_tokens) {
        fail(POWER_INVALID_ARGUMENT, "`first_pos` is %d, sequence %d continues at %d", block.first_pos, block.seq_id,
             sequence.expected_tokens);
    }
}

void check_lattice(const power_context * context, const power_block & block) {
    const int32_t width = llama_model_dflash_selector_top_k(context->model->llama);
    if (width < 1) {
        fail(POWER_UNSUPPORTED, "this model of architecture '%s' computes no candidates to walk over",
             context->model->architecture.c_str());
    }
    check_range("lattice_width", block.lattice_width, width, width);
    if (width > llama_model_n_embd(context->model->llama) / (width + 1)) {
        fail(POWER_UNSUPPORTED, "%d candidates with their scores do not fit into a state row of %d values", width,
             llama_model_n_embd(context->model->llama));
    }
    if (!context->nextn_on || context->nextn_masked) {
        fail(POWER_UNSUPPORTED, "a walk over candidates needs an unmasked nextn tap");
    }
}

void check_confidence(const power_context * context, const power_block & block) {
    if (!(block.p_min >= 0.0f && block.p_min <= 1.0f)) {
        fail(POWER_INVALID_ARGUMENT, "`p_min` is %g, expected 0..1", (double) block.p_min);
    }
    if (block.confidence == POWER_CONFIDENCE_NONE && (block.p_min > 0.0f || block.out_confidences != nullptr)) {
        fail(POWER_INVALID_ARGUMENT, "`p_min` and `out_confidences` need a `confidence`");
    }
    if (block.confidence != POWER_CONFIDENCE_STATE) {
        return;
    }
    if (block.choice != POWER_CHOOSE_LARGEST || llama_model_dflash_selector_top_k(context->model->llama) > 0) {
        fail(POWER_UNSUPPORTED, "the state rows of this model hold candidates, not confidences");
    }
    if (!context->nextn_on) {
        fail(POWER_UNSUPPORTED, "confidences from state rows need a nextn tap");
    }
}

void check_block(const power_context * context, const power_block & block) {
    check_sequence(context, block);
    power::check_not_null(block.out_tokens, "out_tokens");
    check_range("choice", (int32_t) block.choice, POWER_CHOOSE_LARGEST, POWER_CHOOSE_LATTICE);
    check_range("confidence", (int32_t) block.confidence, POWER_CONFIDENCE_NONE, POWER_CONFIDENCE_STATE);
    check_range("n_rows", block.n_rows, 1, context->batch_rows);
    const bool lattice = block.choice == POWER_CHOOSE_LATTICE;
    // A lattice says nothing about its first row.
    if (lattice && block.n_rows < 2) {
        fail(POWER_INVALID_ARGUMENT, "`n_rows` is %d, a walk over candidates needs at least 2", block.n_rows);
    }
    check_range("first_row", block.first_row, lattice ? 1 : 0, block.n_rows - 1);
    check_range("max_tokens", block.max_tokens, 1, block.n_rows - block.first_row);
    if (lattice) {
        check_lattice(context, block);
    } else {
        check_range("lattice_width", block.lattice_width, 0, 0);
    }
    check_confidence(context, block);
}

void evaluate_block(power_context * context, const power_block & block) {
    const auto n_rows = (size_t) block.n_rows;
    context->draft_tokens[0] = block.token;
    std::fill_n(context->draft_tokens.begin() + 1, n_rows - 1, block.fill_token);
    std::fill_n(context->draft_seq_ids.begin(), n_rows, block.seq_id);
    std::fill_n(context->draft_wants.begin(), n_rows, (int8_t) (block.choice == POWER_CHOOSE_LARGEST ? 1 : 0));
    for (size_t row = 0; row < n_rows; ++row) {
        context->draft_positions[row] = block.first_pos + (int32_t) row;
    }
    power_rows rows = {};
    rows.size = sizeof(rows);
    rows.n_rows = block.n_rows;
    rows.tokens = context->draft_tokens.data();
    rows.positions = context->draft_positions.data();
    rows.seq_ids = context->draft_seq_ids.data();
    rows.wants_logits = context->draft_wants.data();
    power::evaluate_rows(context, rows);
}

struct Pick {
    int32_t token = 0;
    float confidence = 0.0f;
};

float confidence_in_state(power_context * context, int32_t row) {
    const float confidence = power::nextn_row(context, row)[0];
    if (!std::isfinite(confidence)) {
        fail(POWER_NO_FINITE_LOGIT, "row %d has the confidence %g", row, (double) confidence);
    }
    return confidence;
}

Pick pick_largest(power_context * context, const power_block & block, int32_t row, bool wants_confidence) {
    Pick pick;
    const bool softmax = wants_confidence && block.confidence == POWER_CONFIDENCE_SOFTMAX;
    pick.token = power::choose_at_row(context, row, softmax ? &pick.confidence : nullptr).token;
    if (wants_confidence && !softmax) {
        pick.confidence = confidence_in_state(context, row);
    }
    return pick;
}

// Takes the best successor of `predecessor` and leaves it there.
Pick pick_in_lattice(power_context * context, const power_block & block, int32_t row, bool wants_confidence,
                     int32_t & predecessor) {
    const float * candidates = power::nextn_row(context, row);
    const int32_t width = block.lattice_width;
    const float * scores = candidates + width + (ptrdiff_t) predecessor * width;
    power::Choice choice{};
    if (!power::choose_largest(scores, width, choice)) {
        fail(POWER_NO_FINITE_LOGIT, "row %d has no finite best candidate (a NaN, or nothing above -infinity)", row);
    }
    const float candidate = candidates[choice.token];
    const int32_t n_vocab = llama_vocab_n_tokens(context->model->vocab);
    if (!(candidate >= 0.0f && candidate < (float) n_vocab) || candidate != std::trunc(candidate)) {
        fail(POWER_COMPUTE_FAILED, "row %d has the candidate %g, expected a token of 0..%d", row, (double) candidate,
             n_vocab - 1);
    }
    predecessor = choice.token;
    Pick pick;
    pick.token = (int32_t) candidate;
    if (wants_confidence) {
        pick.confidence = power::softmax_of_largest(scores, width, choice.logit);
    }
    return pick;
}

int32_t pick_rows(power_context * context, const power_block & block) {
    const bool wants_confidence = block.p_min > 0.0f || block.out_confidences != nullptr;
    int32_t predecessor = 0;
    for (int32_t count = 0; count < block.max_tokens; ++count) {
        const int32_t row = block.first_row + count;
        const Pick pick = block.choice == POWER_CHOOSE_LATTICE
                              ? pick_in_lattice(context, block, row, wants_confidence, predecessor)
                              : pick_largest(context, block, row, wants_confidence);
        if (pick.confidence < block.p_min) {
            return count;
        }
        block.out_tokens[count] = pick.token;
        if (block.out_confidences != nullptr) {
            block.out_confidences[count] = pick.confidence;
        }
    }
    return block.max_tokens;
}

}  // namespace

namespace power {

void draft_block(power_context * context, power_block & block) {
    block.out_count = 0;
    check_block(context, block);
    TemporaryRows written(context, block.seq_id, block.first_pos);
    evaluate_block(context, block);
    const int32_t count = pick_rows(context, block);
    written.drop();
    block.out_count = count;
}

}  // namespace power

extern "C" power_status power_draft_block(power_context * ctx, power_block * block, power_error * err) {
    return power::guarded(err, [&] {
        power::ContextUse use(ctx);
        power::check_size(block, "power_block");
        power::draft_block(ctx, *block);
    });
}
