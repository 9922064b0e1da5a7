// The part of the ABI that drafts: chains and blocks of a drafter, and whole rounds. The rules of power_shim.h hold.

#ifndef POWER_DRAFTING_H
#define POWER_DRAFTING_H

#include "power_shim.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---------------------------------------------------------------- drafting primitives

// Chained rows: evaluate `token` with state row `state` at `first_pos`, choose greedily, feed the choice with the new
// state row at the next position, up to `max_tokens` times or until the choice's probability is below `p_min`.
// The rows that were written are dropped again before the call returns, so the sequence ends where it began.
// With `heads` > 1 step i runs nextn head i over the whole chain so far, and max_tokens must not exceed heads.
typedef struct power_chain {
    uint32_t size;
    int32_t seq_id;
    int32_t first_pos;
    int32_t token;
    int32_t max_tokens;
    int32_t heads;
    float p_min;
    uint32_t reserved;
    const float *state;        // n_embd
    int32_t *out_tokens;       // room for max_tokens
    float *out_probabilities;  // room for max_tokens; may be null
    int32_t out_count;
    uint32_t reserved2;
} power_chain;

POWER_API power_status power_draft_chain(power_context *ctx, power_chain *chain, power_error *err);

enum power_block_choice {
    POWER_CHOOSE_LARGEST = 0,  // the largest logit of each row
    POWER_CHOOSE_LATTICE = 1   // a walk over the candidates of the rows' state rows
};

enum power_block_confidence {
    POWER_CONFIDENCE_NONE = 0,
    POWER_CONFIDENCE_SOFTMAX = 1,  // softmax value of the choice among what it was chosen from
    POWER_CONFIDENCE_STATE = 2     // first value of the row's state row; with POWER_CHOOSE_LARGEST only
};

// One block: evaluate `token` and n_rows - 1 times `fill_token` from `first_pos` on, and choose a token at each of the
// rows first_row, first_row + 1, .., at most max_tokens, stopping before the first whose confidence is below `p_min`.
// The rows that were written are dropped again before the call returns, so the sequence ends where it began; it is stale
// when they cannot be dropped. Models with recurrent state are refused.
// POWER_CHOOSE_LATTICE and POWER_CONFIDENCE_STATE need a nextn tap, the former unmasked. State row of a lattice: width
// candidate ids as floats, then a table of width x width scores, row p for the predecessor p of the row before. The walk
// begins with predecessor 0 and always takes the best successor, the first on ties.
typedef struct power_block {
    uint32_t size;
    uint32_t choice;           // power_block_choice
    uint32_t confidence;       // power_block_confidence
    int32_t seq_id;
    int32_t first_pos;
    int32_t token;
    int32_t fill_token;
    int32_t n_rows;
    int32_t first_row;
    int32_t max_tokens;        // at most n_rows - first_row
    int32_t lattice_width;     // candidates per row, as the model has them; 0 with POWER_CHOOSE_LARGEST
    float p_min;               // 0 without a confidence
    int32_t *out_tokens;       // room for max_tokens
    float *out_confidences;    // room for max_tokens; may be null, and is without a confidence
    int32_t out_count;
    uint32_t reserved;
} power_block;

POWER_API power_status power_draft_block(power_context *ctx, power_block *block, power_error *err);

// ---------------------------------------------------------------- rounds

enum power_round_step {
    POWER_STEP_DRAFT = 1,
    POWER_STEP_EVALUATE = 2,
    POWER_STEP_CHOOSE = 3,
    POWER_STEP_DISCARD = 4,
    POWER_STEP_FEED = 5
};

// One round of a target and a drafter that reads its hidden rows, both at `first_pos` tokens: draft, evaluate
// `anchor` and the drafts slice by slice while the target's choices confirm them, drop the rejected rows, feed the
// drafter the rows that stay with their hidden rows. Each step is the call of its own: power_draft_chain or
// power_draft_block, power_evaluate, power_argmax or power_sampler_sample, power_memory_truncate, power_evaluate.
// Either `chain`, with one head, or `block` is set. Their seq_id, first_pos, token, p_min, max_tokens, state and
// out_tokens are taken from the round, and a block has no more rows than its drafts take; the rest is as for their own
// calls.
// A failure names the step in `step`; rows that the round wrote may stay then, in both contexts, and draws in `sampler`.
// `fed` 0 with POWER_OK: the rejected rows cannot be dropped exactly. They are still in the target's memory, the drafter
// got no row, and everything else is as told.
typedef struct power_round {
    uint32_t size;
    int32_t seq_id;
    int32_t first_pos;         // position of the anchor
    int32_t anchor;
    int32_t max_tokens;        // most drafts, at least 1; more than room_tokens counts as room_tokens
    int32_t room_tokens;       // drafts that there is room for below
    int32_t min_tokens;        // fewer drafts than this are dropped
    float p_min;
    int32_t slice_rows;        // most rows of one evaluation of the target, at least 1
    uint32_t fill_slices;      // 1: slices of a round with drafts are filled up to slice_rows; what was added is dropped
    int32_t ctx_tokens;        // slices are filled up to this position at most
    int32_t features_row;      // chain: the row of `features` before the anchor, set by the caller; block: 0
    power_context *drafter;
    power_chain *chain;
    power_block *block;
    power_sampler *sampler;    // draws the rows, to the first mismatch; null: the largest logit
    const uint32_t *layers;    // of the target's hidden rows, with `block`
    uint32_t n_layers;
    uint32_t n_ends;
    const int32_t *ends;       // tokens that end the round beside the model's own
    const int32_t *replacements; // stand for the drafts once the drafter has made its own; null: the drafts do
    uint32_t n_replacements;   // more than there may be drafts are cut off
    uint32_t reserved;
    int32_t *tokens;           // room for room_tokens + 1: the anchor, then the drafts
    int32_t *emitted;          // room for room_tokens + 1: accepted drafts, then the correction or bonus
    float *features;           // hidden rows of the round: chain n_embd values each, behind features_row, where the last
                               // one is before the next anchor; block n_layers x n_embd; room for room_tokens + 1
    int32_t drafted;
    int32_t accepted;
    int32_t emitted_count;     // the rows that stay, too: the anchor's and those of all emitted tokens but the last
    int32_t evaluated_rows;
    int32_t target_calls;
    int32_t step;              // power_round_step
    uint32_t verified;         // 1: every row that was needed is chosen, what comes later cannot change the counts above
    uint32_t fed;
    uint64_t draft_ns;         // drafting and feeding
    uint64_t verify_ns;        // evaluating the target's rows, reading hidden rows, dropping rows
    uint64_t choose_ns;
} power_round;

POWER_API power_status power_run_round(power_context *ctx, power_round *round, power_error *err);

#ifdef __cplusplus
}
#endif

#endif
