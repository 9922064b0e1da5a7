// Sequence facts, truncation and clearing.

#include "shim_internal.h"

extern "C" {

power_status power_sequence_get(power_context * ctx, int32_t seq_id, power_sequence_info * info, power_error * err) {
    return power::guarded(err, [&] {
        power::ContextUse use(ctx);
        power::check_size(info, "power_sequence_info");
        power::check_sequence_id(ctx, seq_id);
        const power::Sequence & sequence = ctx->sequences[(size_t) seq_id];
        info->stale = sequence.stale ? 1 : 0;
        info->length_tokens = power::stored_length(ctx, seq_id);
        info->expected_tokens = sequence.expected_tokens;
        info->first_pos = power::first_held_position(ctx, seq_id);
        info->rollback_rows = power::rollback_rows(ctx, seq_id);
    });
}

power_status power_memory_truncate(power_context * ctx, int32_t seq_id, int32_t length_tokens, power_error * err) {
    return power::guarded(err, [&] {
        power::ContextUse use(ctx);
        power::check_sequence_id(ctx, seq_id);
        power::truncate_sequence(ctx, seq_id, length_tokens);
    });
}

power_status power_memory_clear(power_context * ctx, int32_t seq_id, power_error * err) {
    return power::guarded(err, [&] {
        power::ContextUse use(ctx);
        power::check_sequence_id(ctx, seq_id);
        power::clear_sequence(ctx, seq_id);
    });
}

}  // extern "C"
