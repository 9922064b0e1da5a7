// Checkpoints: the state that truncation cannot rebuild.
//
// A blob is our header and then the library's own bytes. The header makes a wrong or cut blob refusable before anything
// is touched; the library would clear the sequence first and complain later.

#include "shim_internal.h"

#include "llama-memory-recurrent.h"

#include <cstring>

namespace {

constexpr uint32_t kMagic = 0x4B435750;  // "PWCK"
constexpr llama_state_seq_flags kFlags = LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY;

struct Header {
    uint32_t magic;
    int32_t length_tokens;
    int32_t kind;       // of the context
    int32_t reserved;
    uint64_t payload_bytes;
};

// Plain keys and values are truncated exactly; the library would copy all of them.
uint64_t payload_bytes(power_context * context, int32_t seq_id) {
    if (context->recurrent == nullptr && llama_model_n_swa(context->model->llama) <= 0) {
        return 0;
    }
    return llama_state_seq_get_size_ext(context->llama, seq_id, kFlags);
}

void check_not_stale(const power_context * context, int32_t seq_id) {
    if (context->sequences[(size_t) seq_id].stale) {
        power::fail(POWER_STALE, "sequence %d is stale; there is no state to save", seq_id);
    }
}

Header read_header(const power_context * context, const uint8_t * buffer, uint64_t size_bytes, int32_t length_tokens) {
    Header header{};
    if (size_bytes < sizeof(header)) {
        power::fail(POWER_INVALID_ARGUMENT, "a checkpoint of %llu bytes is too short", (unsigned long long) size_bytes);
    }
    memcpy(&header, buffer, sizeof(header));
    if (header.magic != kMagic || header.kind != (int32_t) context->kind) {
        power::fail(POWER_INVALID_ARGUMENT, "the bytes are no checkpoint of this context");
    }
    if (header.payload_bytes != size_bytes - sizeof(header)) {
        power::fail(POWER_INVALID_ARGUMENT, "the checkpoint has %llu bytes of state, its header says %llu",
                    (unsigned long long) (size_bytes - sizeof(header)), (unsigned long long) header.payload_bytes);
    }
    if (header.length_tokens != length_tokens) {
        power::fail(POWER_INVALID_ARGUMENT, "the checkpoint was taken at %d tokens, cannot restore to %d",
                    header.length_tokens, length_tokens);
    }
    return header;
}

[[noreturn]] void fail_stale(power::Sequence & sequence, int32_t seq_id, const char * what) {
    sequence.stale = true;
    power::fail(POWER_COMPUTE_FAILED, "sequence %d could not be restored: %s; it is stale", seq_id, what);
}

void restore(power_context * context, int32_t seq_id, const uint8_t * payload, uint64_t bytes, int32_t length_tokens) {
    power::Sequence & sequence = context->sequences[(size_t) seq_id];
    sequence.stale = true;  // until every step below has succeeded
    sequence.snapshot_rows = 0;
    const power::ComputeClock clock(context);
    if (bytes != 0 && llama_state_seq_set_data_ext(context->llama, payload, bytes, seq_id, kFlags) != bytes) {
        fail_stale(sequence, seq_id, "the library did not take the state");
    }
    if (context->recurrent != nullptr && context->recurrent->seq_pos_max(seq_id) != length_tokens - 1) {
        fail_stale(sequence, seq_id, "the recurrent state belongs to another length");
    }
    if (!llama_memory_seq_rm(context->memory, seq_id, length_tokens, -1)) {
        fail_stale(sequence, seq_id, "the library refused to drop the rows behind it");
    }
    if (power::stored_length(context, seq_id) != length_tokens) {
        fail_stale(sequence, seq_id, "keys and values before it are missing");
    }
    if (!power::window_is_whole(context, seq_id, length_tokens)) {
        fail_stale(sequence, seq_id, "its sliding window is incomplete");
    }
    sequence.expected_tokens = length_tokens;
    sequence.stale = false;
}

}  // namespace

extern "C" {

power_status power_checkpoint_size(power_context * ctx, int32_t seq_id, uint64_t * size_bytes, power_error * err) {
    return power::guarded(err, [&] {
        power::ContextUse use(ctx);
        power::check_not_null(size_bytes, "size_bytes");
        power::check_sequence_id(ctx, seq_id);
        check_not_stale(ctx, seq_id);
        *size_bytes = sizeof(Header) + payload_bytes(ctx, seq_id);
    });
}

power_status power_checkpoint_save(power_context * ctx, int32_t seq_id, uint8_t * buffer, uint64_t capacity,
                                   uint64_t * written, power_error * err) {
    return power::guarded(err, [&] {
        power::ContextUse use(ctx);
        power::check_not_null(buffer, "buffer");
        power::check_not_null(written, "written");
        power::check_sequence_id(ctx, seq_id);
        check_not_stale(ctx, seq_id);
        const power::ComputeClock clock(ctx);
        const Header header{kMagic, ctx->sequences[(size_t) seq_id].expected_tokens, (int32_t) ctx->kind, 0,
                            payload_bytes(ctx, seq_id)};
        if (capacity < sizeof(header) + header.payload_bytes) {
            power::fail(POWER_INVALID_ARGUMENT, "`capacity` is %llu bytes, the checkpoint needs %llu",
                        (unsigned long long) capacity,
                        (unsigned long long) (sizeof(header) + header.payload_bytes));
        }
        memcpy(buffer, &header, sizeof(header));
        const uint64_t saved =
            header.payload_bytes == 0
                ? 0
                : llama_state_seq_get_data_ext(ctx->llama, buffer + sizeof(header), header.payload_bytes, seq_id, kFlags);
        if (saved != header.payload_bytes) {
            power::fail(POWER_COMPUTE_FAILED, "the library saved %llu of %llu bytes", (unsigned long long) saved,
                        (unsigned long long) header.payload_bytes);
        }
        *written = sizeof(header) + saved;
    });
}

power_status power_checkpoint_restore(power_context * ctx, int32_t seq_id, const uint8_t * buffer, uint64_t size_bytes,
                                      int32_t length_tokens, power_error * err) {
    return power::guarded(err, [&] {
        power::ContextUse use(ctx);
        power::check_not_null(buffer, "buffer");
        power::check_sequence_id(ctx, seq_id);
        const Header header = read_header(ctx, buffer, size_bytes, length_tokens);
        if (length_tokens == 0) {
            power::clear_sequence(ctx, seq_id);
            return;
        }
        restore(ctx, seq_id, buffer + sizeof(Header), header.payload_bytes, length_tokens);
    });
}

}  // extern "C"
