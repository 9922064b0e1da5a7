// One evaluation: everything that would abort or lie is checked first, then llama_decode runs, then the counts settle.

#include "shim_internal.h"

#include "llama-memory-recurrent.h"

#include <algorithm>

namespace {

using power::fail;
using power::Sequence;

// ---- checks; nothing has run while these refuse

void check_inputs(const power_context * context, const power_rows & rows) {
    const bool tokens = rows.tokens != nullptr;
    const bool embeddings = rows.embeddings != nullptr;
    const bool states = rows.states != nullptr;
    switch (context->kind) {
        case POWER_CONTEXT_TARGET:
            if (!tokens || embeddings || states) {
                fail(POWER_INVALID_ARGUMENT, "a target context takes tokens and neither embeddings nor states");
            }
            break;
        case POWER_CONTEXT_NEXTN:
            if (!tokens || embeddings || !states) {
                fail(POWER_INVALID_ARGUMENT, "a nextn context takes tokens with states and no embeddings");
            }
            break;
        default:
            if (tokens == embeddings || states) {
                fail(POWER_INVALID_ARGUMENT, "a draft context takes either tokens or embeddings and no states");
            }
            if (embeddings && context->model->architecture != "dflash") {
                fail(POWER_UNSUPPORTED, "architecture '%s' takes no embedding rows",
                     context->model->architecture.c_str());
            }
    }
}

void check_tokens(const power_context * context, const power_rows & rows) {
    if (rows.tokens == nullptr) {
        return;
    }
    const int32_t n_vocab = llama_vocab_n_tokens(context->model->vocab);
    for (int32_t row = 0; row < rows.n_rows; ++row) {
        if (rows.tokens[row] < 0 || rows.tokens[row] >= n_vocab) {
            fail(POWER_INVALID_ARGUMENT, "row %d has token %d, expected 0..%d", row, rows.tokens[row], n_vocab - 1);
        }
    }
}

// Fills `row_counts` and `touched`. Positions are checked here for every architecture: the library accepts gaps on
// some.
void check_positions(power_context * context, const power_rows & rows) {
    std::fill(context->row_counts.begin(), context->row_counts.end(), 0);
    context->touched.clear();
    for (int32_t row = 0; row < rows.n_rows; ++row) {
        const int32_t seq_id = rows.seq_ids[row];
        power::check_sequence_id(context, seq_id);
        const Sequence & sequence = context->sequences[(size_t) seq_id];
        int32_t & count = context->row_counts[(size_t) seq_id];
        if (count == 0) {
            context->touched.push_back(seq_id);
            if (sequence.stale) {
                fail(POWER_STALE, "sequence %d is stale; restore or clear it before evaluating", seq_id);
            }
        }
        const int32_t expected = sequence.expected_tokens + count;
        if (rows.positions[row] != expected) {
            fail(POWER_INVALID_ARGUMENT, "row %d of sequence %d has position %d, expected %d", row, seq_id,
                 rows.positions[row], expected);
        }
        if (expected >= context->ctx_tokens) {
            fail(POWER_CONTEXT_FULL, "sequence %d has %d of %d tokens; the evaluation does not fit", seq_id,
                 sequence.expected_tokens, context->ctx_tokens);
        }
        ++count;
    }
}

int32_t count_outputs(const power_context * context, const power_rows & rows) {
    int32_t outputs = 0;
    for (int32_t row = 0; row < rows.n_rows; ++row) {
        outputs += rows.wants_logits[row] != 0 ? 1 : 0;
    }
    if (outputs > context->output_rows) {
        fail(POWER_INVALID_ARGUMENT, "%d rows want logits, the context has room for %d", outputs, context->output_rows);
    }
    return outputs;
}

// Block drafters: the graph divides the rows by the sequences, ignores which rows want logits, and has a largest block.
void check_block(const power_context * context, const power_rows & rows, int32_t outputs) {
    if (context->model->architecture != "dflash") {
        return;
    }
    if (rows.embeddings != nullptr) {
        if (outputs != 0) {
            fail(POWER_INVALID_ARGUMENT, "embedding rows have no logits, %d rows want them", outputs);
        }
        return;
    }
    if (rows.n_rows > context->physical_rows) {
        fail(POWER_INVALID_ARGUMENT, "blocks of %d rows in all exceed the %d rows computed at once", rows.n_rows,
             context->physical_rows);
    }
    if (outputs != 0 && outputs != rows.n_rows) {
        fail(POWER_INVALID_ARGUMENT, "%d of %d block rows want logits, expected all or none", outputs, rows.n_rows);
    }
    const int32_t first = context->row_counts[(size_t) context->touched.front()];
    for (const int32_t seq_id : context->touched) {
        if (context->row_counts[(size_t) seq_id] != first) {
            fail(POWER_INVALID_ARGUMENT, "sequences %d and %d have blocks of %d and %d rows, expected equal blocks",
                 context->touched.front(), seq_id, first, context->row_counts[(size_t) seq_id]);
        }
    }
    if (context->block_rows > 0 && first > context->block_rows) {
        fail(POWER_INVALID_ARGUMENT, "a block of %d rows exceeds the model's block size %d", first,
             context->block_rows);
    }
}

void check_rows(power_context * context, const power_rows & rows) {
    if (rows.n_rows < 1 || rows.n_rows > context->batch_rows) {
        fail(POWER_INVALID_ARGUMENT, "`n_rows` is %d, expected 1..%d", rows.n_rows, context->batch_rows);
    }
    power::check_not_null(rows.positions, "positions");
    power::check_not_null(rows.seq_ids, "seq_ids");
    power::check_not_null(rows.wants_logits, "wants_logits");
    check_inputs(context, rows);
    check_tokens(context, rows);
    check_positions(context, rows);
    check_block(context, rows, count_outputs(context, rows));
}

// ---- the call

llama_batch build_batch(power_context * context, const power_rows & rows) {
    const size_t n_rows = (size_t) rows.n_rows;
    std::copy_n(rows.seq_ids, n_rows, context->seq_ids.begin());
    std::copy_n(rows.wants_logits, n_rows, context->wants_logits.begin());
    // Rows without tokens carry every section of a multi-section position: the same value three times, then zero.
    const int32_t sections = rows.tokens != nullptr ? 1 : context->position_sections;
    for (int32_t section = 0; section < sections; ++section) {
        llama_pos * out = context->positions.data() + (size_t) section * n_rows;
        if (section == 3) {
            std::fill_n(out, n_rows, 0);
        } else {
            std::copy_n(rows.positions, n_rows, out);
        }
    }
    llama_batch batch = {};
    batch.n_tokens = rows.n_rows;
    batch.token = const_cast<llama_token *>(rows.tokens);
    batch.embd = const_cast<float *>(rows.states != nullptr ? rows.states : rows.embeddings);
    batch.pos = context->positions.data();
    batch.n_seq_id = context->seq_id_counts.data();
    batch.seq_id = context->seq_id_pointers.data();
    batch.logits = context->wants_logits.data();
    return batch;
}

// ---- afterwards

// True when the rows surely passed the graph at once: the library takes equal numbers of rows of sequences that follow
// each other.
bool in_one_pass(const power_context * context, int32_t n_rows) {
    const std::vector<int32_t> & touched = context->touched;
    for (size_t at = 1; at < touched.size(); ++at) {
        if (touched[at] != touched[at - 1] + 1 ||
            context->row_counts[(size_t) touched[at]] != context->row_counts[(size_t) touched[0]]) {
            return false;
        }
    }
    return n_rows <= context->physical_rows;
}

// Every touched sequence is settled before the first wrong one is reported.
void settle_success(power_context * context, int32_t n_rows) {
    power::settle_bystanders(context, false);
    // A later pass may have moved what an earlier one had finished.
    const bool kept = in_one_pass(context, n_rows) || !power::touched_moved(context);
    int32_t wrong = -1;
    for (const int32_t seq_id : context->touched) {
        Sequence & sequence = context->sequences[(size_t) seq_id];
        const int32_t rows = context->row_counts[(size_t) seq_id];
        sequence.expected_tokens += rows;
        sequence.snapshot_rows = kept ? std::min(context->snapshots, rows - 1) : 0;
        if (power::stored_length(context, seq_id) != sequence.expected_tokens) {
            sequence.stale = true;
            wrong = wrong < 0 ? seq_id : wrong;
        }
    }
    if (wrong >= 0) {
        fail(POWER_COMPUTE_FAILED, "sequence %d holds %d tokens after an evaluation, expected %d; it is stale now",
             wrong, power::stored_length(context, wrong), context->sequences[(size_t) wrong].expected_tokens);
    }
}

// Keys and values can be removed again; recurrent state was overwritten and nothing the library says about it holds.
void settle_failure(power_context * context) {
    power::settle_bystanders(context, true);
    for (const int32_t seq_id : context->touched) {
        Sequence & sequence = context->sequences[(size_t) seq_id];
        const int32_t length = sequence.expected_tokens;
        sequence.snapshot_rows = 0;
        const bool undone = context->recurrent == nullptr &&
                            llama_memory_seq_rm(context->memory, seq_id, length, -1) &&
                            power::stored_length(context, seq_id) == length &&
                            power::window_is_whole(context, seq_id, length);
        sequence.stale = !undone;
    }
}

void settle_full(power_context * context) {
    for (const int32_t seq_id : context->touched) {
        Sequence & sequence = context->sequences[(size_t) seq_id];
        sequence.stale = sequence.stale || power::stored_length(context, seq_id) != sequence.expected_tokens;
    }
}

int32_t run(power_context * context, const llama_batch & batch) {
    const power::ComputeClock clock(context);
    ++context->evaluations;
    try {
        return llama_decode(context->llama, batch);
    } catch (...) {
        context->abort_after = -1;
        settle_failure(context);
        throw;
    }
}

}  // namespace

namespace power {

void evaluate_rows(power_context * context, const power_rows & rows) {
    check_rows(context, rows);
    if (context->abort_flag.load()) {
        fail(POWER_ABORTED, "the abort flag is set; nothing was evaluated");
    }
    const llama_batch batch = build_batch(context, rows);
    context->last_rows = 0;
    remember_cells(context);
    const int32_t result = run(context, batch);
    context->abort_after = -1;
    if (result == 0) {
        settle_success(context, rows.n_rows);
        context->last_rows = rows.n_rows;
        return;
    }
    if (result == 1) {
        settle_full(context);
        fail(POWER_CONTEXT_FULL, "no room for %d rows; the memory is unchanged", rows.n_rows);
    }
    settle_failure(context);
    if (result == 2) {
        fail(POWER_ABORTED, "the evaluation of %d rows was aborted", rows.n_rows);
    }
    fail(POWER_COMPUTE_FAILED, "the evaluation of %d rows failed with code %d", rows.n_rows, result);
}

}  // namespace power

extern "C" power_status power_evaluate(power_context * ctx, const power_rows * rows, power_error * err) {
    return power::guarded(err, [&] {
        power::ContextUse use(ctx);
        power::check_size(rows, "power_rows");
        power::evaluate_rows(ctx, *rows);
    });
}
