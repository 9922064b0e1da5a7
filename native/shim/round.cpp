// A whole round in one call. Every step is the function behind the call of its own; only their order is here.

#include "shim_internal.h"

#include <algorithm>

namespace {

using power::fail;

void check_range(const char * name, int32_t value, int32_t low, int32_t high) {
    if (value < low || value > high) {
        fail(POWER_INVALID_ARGUMENT, "`%s` is %d, expected %d..%d", name, value, low, high);
    }
}

void check_drafter(const power_round & round) {
    power::check_not_null(round.drafter, "drafter");
    if ((round.chain != nullptr) == (round.block != nullptr)) {
        fail(POWER_INVALID_ARGUMENT, "a round takes either a `chain` or a `block`");
    }
    if (round.block != nullptr) {
        power::check_size(round.block, "power_block");
        power::check_not_null(round.layers, "layers");
        return;
    }
    power::check_size(round.chain, "power_chain");
    if (round.chain->heads != 1) {
        fail(POWER_UNSUPPORTED, "a round feeds one nextn head, the chain has %d", round.chain->heads);
    }
}

void check_round(const power_context * context, const power_round & round) {
    if (context->kind != POWER_CONTEXT_TARGET) {
        fail(POWER_UNSUPPORTED, "a round needs a target context");
    }
    power::check_not_null(round.tokens, "tokens");
    power::check_not_null(round.emitted, "emitted");
    power::check_not_null(round.features, "features");
    check_drafter(round);
    if (round.n_ends != 0) {
        power::check_not_null(round.ends, "ends");
    }
    if (round.n_replacements != 0) {
        power::check_not_null(round.replacements, "replacements");
    }
    power::check_sequence_id(context, round.seq_id);
    check_range("first_pos", round.first_pos, 0, context->ctx_tokens - 1);
    check_range("room_tokens", round.room_tokens, 1, context->ctx_tokens);
    check_range("max_tokens", round.max_tokens, 1, context->ctx_tokens);
    check_range("features_row", round.features_row, 0, round.chain != nullptr ? INT32_MAX : 0);
    check_range("slice_rows", round.slice_rows, 1, context->batch_rows);
}

// One round at work: what was asked for, and the slice of the target's rows that is computed now.
class Round {
public:
    Round(power_context * target, power_round & asked) : target_(target), asked_(asked), drafter_(asked.drafter) {
        if (asked.block != nullptr) {
            row_values_ = (size_t) asked.n_layers * (size_t) llama_model_n_embd(target->model->llama);
            fed_rows_ = kept_rows_ = asked.features;
        } else {
            row_values_ = (size_t) llama_model_n_embd(target->model->llama);
            kept_rows_ = asked.features + (size_t) (asked.features_row + 1) * row_values_;
            fed_rows_ = kept_rows_ - row_values_;
        }
    }

    void run() {
        asked_.drafted = asked_.accepted = asked_.emitted_count = 0;
        asked_.evaluated_rows = asked_.target_calls = 0;
        asked_.verified = asked_.fed = 0;
        asked_.draft_ns = asked_.verify_ns = asked_.choose_ns = 0;
        timed(asked_.draft_ns, [&] { draft(); });
        timed(asked_.choose_ns, [&] { verify(); });
        asked_.choose_ns -= asked_.verify_ns;  // the evaluations in between
        asked_.verified = 1;
        bool discarded = false;
        timed(asked_.verify_ns, [&] { discarded = discard(); });
        if (discarded) {
            timed(asked_.draft_ns, [&] { feed(); });
            asked_.fed = 1;
        }
    }

private:
    template <typename Step>
    static void timed(uint64_t & nanoseconds, Step && step) {
        const auto start = std::chrono::steady_clock::now();
        step();
        const auto elapsed = std::chrono::steady_clock::now() - start;
        nanoseconds += (uint64_t) std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count();
    }

    int32_t most_drafts() const { return std::min(asked_.max_tokens, asked_.room_tokens); }

    template <typename Draft>
    void place(Draft & draft) const {
        draft.seq_id = asked_.seq_id;
        draft.first_pos = asked_.first_pos;
        draft.token = asked_.anchor;
        draft.max_tokens = most_drafts();
        draft.p_min = asked_.p_min;
        draft.out_tokens = asked_.tokens + 1;
    }

    void draft() {
        asked_.step = POWER_STEP_DRAFT;
        asked_.tokens[0] = asked_.anchor;
        int32_t count = 0;
        if (asked_.chain != nullptr) {
            place(*asked_.chain);
            asked_.chain->state = fed_rows_;
            power::draft_chain(drafter_, *asked_.chain);
            count = asked_.chain->out_count;
        } else {
            place(*asked_.block);
            asked_.block->n_rows = asked_.block->first_row + most_drafts();
            power::draft_block(drafter_, *asked_.block);
            count = asked_.block->out_count;
        }
        if (asked_.replacements != nullptr) {
            count = (int32_t) std::min(asked_.n_replacements, (uint32_t) most_drafts());
            std::copy_n(asked_.replacements, count, asked_.tokens + 1);
        }
        asked_.drafted = count < asked_.min_tokens ? 0 : count;
    }

    void verify() {
        for (int32_t row = 0; row <= asked_.drafted; ++row) {
            if (row == asked_.evaluated_rows) {
                timed(asked_.verify_ns, [&] { evaluate_slice(row); });
            }
            asked_.step = POWER_STEP_CHOOSE;
            const int32_t token = choose(row - slice_start_);
            asked_.emitted[row] = token;
            asked_.emitted_count = row + 1;
            if (row == asked_.drafted || token != asked_.tokens[row + 1]) {
                return;
            }
            asked_.accepted = row + 1;
            if (is_end(token)) {
                return;
            }
        }
    }

    int32_t choose(int32_t row) {
        if (asked_.sampler != nullptr) {
            return power::sample_at_row(asked_.sampler, target_, row);
        }
        return power::choose_at_row(target_, row, nullptr).token;
    }

    void evaluate_slice(int32_t row) {
        asked_.step = POWER_STEP_EVALUATE;
        if (row != 0) {
            keep_features(row);
        }
        const int32_t tokens = std::min(asked_.slice_rows, asked_.drafted + 1 - row);
        int32_t n_rows = tokens;
        if (asked_.fill_slices != 0 && asked_.drafted != 0) {
            const int32_t room = asked_.ctx_tokens - (asked_.first_pos + row);
            n_rows = std::max(tokens, std::min(asked_.slice_rows, room));
        }
        std::copy_n(asked_.tokens + row, tokens, target_->draft_tokens.begin());
        std::fill_n(target_->draft_tokens.begin() + tokens, n_rows - tokens, asked_.tokens[row + tokens - 1]);
        power_rows rows = describe(target_, row, n_rows, 1);
        rows.tokens = target_->draft_tokens.data();
        ++asked_.target_calls;
        power::evaluate_rows(target_, rows);
        slice_start_ = row;
        asked_.evaluated_rows = row + n_rows;
    }

    // Hidden rows of the slice at hand up to row `end` of the round.
    void keep_features(int32_t end) {
        const int32_t n_rows = end - slice_start_;
        float * out = kept_rows_ + (size_t) slice_start_ * row_values_;
        if (asked_.block != nullptr) {
            power::read_layers(target_, asked_.layers, asked_.n_layers, 0, n_rows, out);
        } else {
            power::read_nextn(target_, 0, n_rows, out);
        }
    }

    // False when the memory cannot go back exactly; it is as it was then.
    bool discard() {
        asked_.step = POWER_STEP_DISCARD;
        keep_features(asked_.emitted_count);
        if (asked_.evaluated_rows == asked_.emitted_count) {
            return true;
        }
        try {
            power::truncate_sequence(target_, asked_.seq_id, asked_.first_pos + asked_.emitted_count);
        } catch (const power::Failure & failure) {
            if (failure.status != POWER_ROLLBACK_REFUSED) {
                throw;
            }
            return false;
        }
        return true;
    }

    void feed() {
        asked_.step = POWER_STEP_FEED;
        for (int32_t row = 0; row < asked_.emitted_count; row += drafter_->batch_rows) {
            const int32_t n_rows = std::min(drafter_->batch_rows, asked_.emitted_count - row);
            power_rows rows = describe(drafter_, row, n_rows, 0);
            const float * values = fed_rows_ + (size_t) row * row_values_;
            if (asked_.block != nullptr) {
                rows.embeddings = values;
            } else {
                rows.tokens = asked_.tokens + row;
                rows.states = values;
            }
            power::evaluate_rows(drafter_, rows);
        }
    }

    power_rows describe(power_context * context, int32_t first_row, int32_t n_rows, int8_t wants_logits) const {
        check_range("rows", n_rows, 1, context->batch_rows);
        for (int32_t row = 0; row < n_rows; ++row) {
            context->draft_positions[(size_t) row] = asked_.first_pos + first_row + row;
        }
        std::fill_n(context->draft_seq_ids.begin(), n_rows, asked_.seq_id);
        std::fill_n(context->draft_wants.begin(), n_rows, wants_logits);
        power_rows rows = {};
        rows.size = sizeof(rows);
        rows.n_rows = n_rows;
        rows.positions = context->draft_positions.data();
        rows.seq_ids = context->draft_seq_ids.data();
        rows.wants_logits = context->draft_wants.data();
        return rows;
    }

    bool is_end(int32_t token) const {
        const int32_t * end = asked_.ends + asked_.n_ends;
        return llama_vocab_is_eog(target_->model->vocab, token) || std::find(asked_.ends, end, token) != end;
    }

    power_context * target_;
    power_round & asked_;
    power_context * drafter_;
    size_t row_values_ = 0;
    const float * fed_rows_ = nullptr;  // what the drafter is fed: of a chain, each row is the one before its token
    float * kept_rows_ = nullptr;       // hidden rows of the target
    int32_t slice_start_ = 0;
};

}  // namespace

extern "C" power_status power_run_round(power_context * ctx, power_round * round, power_error * err) {
    return power::guarded(err, [&] {
        power::ContextUse use(ctx);
        power::check_size(round, "power_round");
        check_round(ctx, *round);
        power::ContextUse drafting(round->drafter);
        Round(ctx, *round).run();
    });
}
