// What each sequence holds and how far it can go back.
//
// Recurrent state keeps snapshots of the last rows of a sequence's last evaluation; the library accepts rollbacks
// beyond them and then computes on wrong state, so the window is counted here. Sliding windows drop positions; the
// library removes rows behind which the window is gone without a word, so the oldest held position is asked for.

#include "shim_internal.h"

#include "llama-memory-recurrent.h"
#include "llama-model.h"

#include <algorithm>

namespace {

bool moves_cells(const power_context * context) {
    return context->recurrent != nullptr && context->sequence_count > 1;
}

int32_t cell_of(const power_context * context, int32_t seq_id) {
    return context->recurrent->cells[(size_t) seq_id].tail;
}

struct CellRange {
    int32_t low = INT32_MAX;
    int32_t high = -1;

    void include(int32_t cell) {
        if (cell >= 0) {
            low = std::min(low, cell);
            high = std::max(high, cell);
        }
    }

    bool contains(int32_t cell) const { return cell >= low && cell <= high; }
};

}  // namespace

namespace power {

void check_sequence_id(const power_context * context, int32_t seq_id) {
    if (seq_id < 0 || seq_id >= context->sequence_count) {
        fail(POWER_INVALID_ARGUMENT, "sequence %d is not in 0..%d", seq_id, context->sequence_count - 1);
    }
}

int32_t stored_length(power_context * context, int32_t seq_id) {
    return context->memory->seq_pos_max(seq_id) + 1;
}

int32_t first_held_position(power_context * context, int32_t seq_id) {
    // A recurrent cell remembers its last position only; the first one of keys and values is meant.
    const llama_memory_i * memory = context->attention != nullptr ? context->attention : context->memory;
    return memory->seq_pos_min(seq_id);
}

bool window_is_whole(power_context * context, int32_t seq_id, int32_t length_tokens) {
    const int32_t window = llama_model_n_swa(context->model->llama);
    if (window <= 0 || context->attention == nullptr || length_tokens == 0) {
        return true;
    }
    const int32_t first = first_held_position(context, seq_id);
    return first >= 0 && first <= std::max(0, length_tokens - (window - 1));
}

int32_t rollback_rows(power_context * context, int32_t seq_id) {
    const Sequence & sequence = context->sequences[(size_t) seq_id];
    if (sequence.stale) {
        return 0;
    }
    int32_t rows = context->recurrent != nullptr ? sequence.snapshot_rows : sequence.expected_tokens;
    const int32_t window = llama_model_n_swa(context->model->llama);
    const int32_t first = first_held_position(context, seq_id);
    if (window > 0 && context->attention != nullptr && first > 0) {
        rows = std::min(rows, sequence.expected_tokens - (window - 1) - first);
    }
    return std::max(0, rows);
}

void clear_sequence(power_context * context, int32_t seq_id) {
    Sequence & sequence = context->sequences[(size_t) seq_id];
    const ComputeClock clock(context);
    const bool removed = llama_memory_seq_rm(context->memory, seq_id, -1, -1);
    if (!removed || stored_length(context, seq_id) != 0) {
        sequence.stale = true;
        fail(POWER_COMPUTE_FAILED, "sequence %d could not be cleared, it still holds %d tokens", seq_id,
             stored_length(context, seq_id));
    }
    sequence = Sequence{};
}

void truncate_sequence(power_context * context, int32_t seq_id, int32_t length_tokens) {
    Sequence & sequence = context->sequences[(size_t) seq_id];
    const int32_t rows = sequence.expected_tokens - length_tokens;
    if (length_tokens == 0) {
        clear_sequence(context, seq_id);
        return;
    }
    if (sequence.stale) {
        fail(POWER_STALE, "sequence %d is stale; restore or clear it first", seq_id);
    }
    if (length_tokens < 0 || rows < 0) {
        fail(POWER_INVALID_ARGUMENT, "length %d is not in 0..%d of sequence %d", length_tokens,
             sequence.expected_tokens, seq_id);
    }
    if (rows == 0) {
        return;
    }
    const int32_t most = rollback_rows(context, seq_id);
    if (rows > most) {
        fail(POWER_ROLLBACK_REFUSED, "sequence %d of %d tokens cannot drop %d rows exactly, at most %d now", seq_id,
             sequence.expected_tokens, rows, most);
    }
    const ComputeClock clock(context);
    const bool removed = llama_memory_seq_rm(context->memory, seq_id, length_tokens, -1);
    const int32_t held = stored_length(context, seq_id);
    if (!removed && held == sequence.expected_tokens) {
        fail(POWER_ROLLBACK_REFUSED, "the library refused to drop %d rows of sequence %d", rows, seq_id);
    }
    sequence.snapshot_rows = 0;
    if (!removed || held != length_tokens) {
        sequence.stale = true;
        fail(POWER_COMPUTE_FAILED, "sequence %d holds %d tokens after a truncation to %d; it is stale now", seq_id,
             held, length_tokens);
    }
    sequence.expected_tokens = length_tokens;
}

TemporaryRows::~TemporaryRows() {
    Sequence & sequence = context_->sequences[(size_t) seq_id_];
    if (sequence.stale || sequence.expected_tokens == length_) {
        return;
    }
    try {
        drop();
    } catch (...) {
        sequence.stale = true;
    }
}

void remember_cells(power_context * context) {
    if (!moves_cells(context)) {
        return;
    }
    for (int32_t seq_id = 0; seq_id < context->sequence_count; ++seq_id) {
        context->cells_before[(size_t) seq_id] = cell_of(context, seq_id);
    }
}

bool touched_moved(const power_context * context) {
    if (!moves_cells(context) || context->touched.size() < 2) {
        return false;
    }
    return std::any_of(context->touched.begin(), context->touched.end(), [&](int32_t seq_id) {
        return cell_of(context, seq_id) != context->cells_before[(size_t) seq_id];
    });
}

// An evaluation brings the cells of its sequences side by side. A sequence whose cell lies between may be moved: its
// state is copied along when the graph runs, its snapshots are not.
void settle_bystanders(power_context * context, bool failed) {
    if (!moves_cells(context)) {
        return;
    }
    CellRange range;
    for (const int32_t seq_id : context->touched) {
        range.include(context->cells_before[(size_t) seq_id]);
        range.include(cell_of(context, seq_id));
    }
    for (int32_t seq_id = 0; seq_id < context->sequence_count; ++seq_id) {
        Sequence & sequence = context->sequences[(size_t) seq_id];
        const int32_t before = context->cells_before[(size_t) seq_id];
        const bool bystander = context->row_counts[(size_t) seq_id] == 0 && before >= 0;
        if (!bystander || (!range.contains(before) && before == cell_of(context, seq_id))) {
            continue;
        }
        sequence.snapshot_rows = 0;
        sequence.stale = sequence.stale || failed;
    }
}

}  // namespace power
