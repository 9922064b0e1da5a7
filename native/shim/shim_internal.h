// What the shim's files share: failures, the guard around every exported function, and the handles' layout.

#ifndef POWER_SHIM_INTERNAL_H
#define POWER_SHIM_INTERNAL_H

#include "dry_sources.h"
#include "power_drafting.h"

#include "ggml-backend.h"
#include "llama.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

struct ggml_threadpool;
struct llama_memory_i;
class llama_memory_recurrent;

namespace power {

// A refusal with its status; thrown inside the shim only, turned into a power_error by `guarded`.
struct Failure {
    power_status status;
    std::string text;
};

#if defined(__GNUC__)
#define POWER_PRINTF(format_index, first_argument) __attribute__((format(printf, format_index, first_argument)))
#else
#define POWER_PRINTF(format_index, first_argument)
#endif

[[noreturn]] void fail(power_status status, const char * format, ...) POWER_PRINTF(2, 3);

// Write `text` cut at capacity - 1 and terminated; a capacity of 0 writes nothing.
void copy_text(char * buffer, size_t capacity, const std::string & text);

// ---- log: positions count bytes ever written, so a caller can ask for what was said since
void library_init();
uint64_t log_position();
std::string log_since(uint64_t position, size_t max_bytes);

bool error_usable(const power_error * err);
void error_clear(power_error * err);
power_status error_report(power_error * err, power_status status, const std::string & text, uint64_t log_mark);

// Run `body`; no exception leaves. Every exported function that takes a power_error goes through here.
template <typename Body>
power_status guarded(power_error * err, Body && body) noexcept {
    if (!error_usable(err)) {
        return POWER_ABI_MISMATCH;
    }
    library_init();
    const uint64_t log_mark = log_position();
    try {
        error_clear(err);
        body();
        return POWER_OK;
    } catch (const Failure & failure) {
        return error_report(err, failure.status, failure.text, log_mark);
    } catch (const std::bad_alloc &) {
        return error_report(err, POWER_OUT_OF_MEMORY, "out of memory", log_mark);
    } catch (const std::exception & exception) {
        return error_report(err, POWER_EXCEPTION, exception.what(), log_mark);
    } catch (...) {
        return error_report(err, POWER_EXCEPTION, "an exception of unknown type", log_mark);
    }
}

template <typename Struct>
void check_size(const Struct * value, const char * name) {
    if (value == nullptr) {
        fail(POWER_INVALID_ARGUMENT, "`%s` is null", name);
    }
    if (value->size != sizeof(Struct)) {
        fail(POWER_ABI_MISMATCH, "`%s` has size %u, the library expects %zu", name, value->size, sizeof(Struct));
    }
}

template <typename Pointer>
void check_not_null(const Pointer * value, const char * name) {
    if (value == nullptr) {
        fail(POWER_INVALID_ARGUMENT, "`%s` is null", name);
    }
}

// What an architecture's graphs expose (see architectures.cpp).
bool exposes_layer_inputs(const std::string & architecture);
bool exposes_nextn_rows(const std::string & architecture);
bool takes_few_head_rows(const std::string & architecture);
// Most nextn blocks that the architecture's nextn graph takes: 0 = it has no such graph, 1, or many.
int32_t most_nextn_blocks(const std::string & architecture);

// One sequence of a context, as the shim counts it.
struct Sequence {
    int32_t expected_tokens = 0;   // evaluated and not removed
    int32_t snapshot_rows = 0;     // rows that recurrent snapshots can still take back
    bool stale = false;
};

// Heads of fewer rows for the nextn blocks: views of the model's first rows, or copies of the rows that were named.
struct FewHeadRows {
    std::unique_ptr<ggml_context, void (*)(ggml_context *)> tensors{nullptr, ggml_free};
    std::unique_ptr<ggml_backend_buffer, void (*)(ggml_backend_buffer_t)> buffer{nullptr, ggml_backend_buffer_free};
};

struct ThreadsFree {
    void operator()(ggml_threadpool * threads) const;
};

}  // namespace power

struct power_model {
    llama_model * llama = nullptr;
    const llama_vocab * vocab = nullptr;
    std::string architecture;
    bool repacked = false;
    bool nextn_loaded = false;
    power::DrySources dry_sources;
    std::atomic<int> references{1};
};

struct power_context {
    power_model * model = nullptr;
    power_context * other = nullptr;
    llama_context * llama = nullptr;
    std::atomic<int> references{1};

    llama_memory_i * memory = nullptr;
    llama_memory_i * attention = nullptr;          // the part that keeps keys and values, may be null
    llama_memory_recurrent * recurrent = nullptr;  // the part that keeps recurrent state, may be null

    uint32_t kind = POWER_CONTEXT_TARGET;
    int32_t ctx_tokens = 0;
    int32_t batch_rows = 0;
    int32_t physical_rows = 0;     // rows of one pass through the graph; an evaluation may take several
    int32_t output_rows = 0;
    int32_t sequence_count = 0;
    int32_t snapshots = 0;
    int32_t block_rows = 0;        // block drafters: most rows of one block, 0 = no limit known
    int32_t position_sections = 1; // 4 for M-RoPE
    bool exact = false;
    bool chooses_on_device = false;
    bool nextn_on = false;
    bool nextn_masked = false;
    std::vector<uint8_t> layer_on;

    std::atomic<bool> in_use{false};
    std::atomic<bool> abort_flag{false};
    std::atomic<int64_t> abort_after{-1};
    std::atomic<uint64_t> compute_ns{0};
    std::atomic<uint64_t> evaluations{0};

    std::vector<power::Sequence> sequences;

    // Arrays of one evaluation, sized once at open.
    std::vector<int32_t> row_counts;               // per sequence, rows of the evaluation at hand
    std::vector<int32_t> touched;                  // sequences of the evaluation at hand, room for all
    std::vector<llama_pos> positions;              // batch_rows x position_sections
    std::vector<llama_seq_id> seq_ids;
    std::vector<llama_seq_id *> seq_id_pointers;
    std::vector<int32_t> seq_id_counts;
    std::vector<int8_t> wants_logits;              // kept for the readers of the last evaluation
    int32_t last_rows = 0;                         // rows of the last evaluation, 0 = nothing to read
    std::vector<int32_t> cells_before;             // recurrent cell of each sequence before an evaluation

    // Rows of the drafting primitives and of a round's slices, sized at open; states for POWER_CONTEXT_NEXTN.
    int32_t nextn_head = 0;
    std::vector<int32_t> draft_tokens;
    std::vector<int32_t> draft_positions;
    std::vector<int32_t> draft_seq_ids;
    std::vector<int8_t> draft_wants;
    std::vector<float> draft_states;
    power::FewHeadRows few_head_rows;

    std::unique_ptr<ggml_threadpool, power::ThreadsFree> threads;  // null: the library's own
    std::vector<std::unique_ptr<llama_sampler, void (*)(llama_sampler *)>> device_choosers;  // one per sequence, or none
};

namespace power {

// Take the context for one call; a second caller is refused, never queued.
class ContextUse {
public:
    explicit ContextUse(power_context * context);
    ~ContextUse();
    ContextUse(const ContextUse &) = delete;
    ContextUse & operator=(const ContextUse &) = delete;

private:
    power_context * context_;
};

// Adds the time of its scope to the context's counter.
class ComputeClock {
public:
    explicit ComputeClock(power_context * context) : context_(context), start_(std::chrono::steady_clock::now()) {}
    ~ComputeClock() {
        const auto elapsed = std::chrono::steady_clock::now() - start_;
        context_->compute_ns += (uint64_t) std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count();
    }
    ComputeClock(const ComputeClock &) = delete;
    ComputeClock & operator=(const ComputeClock &) = delete;

private:
    power_context * context_;
    std::chrono::steady_clock::time_point start_;
};

void check_open(const power_model * model, const power_context_params & params);  // open_checks.cpp
void check_block_model(const power_model * model);                                // block_checks.cpp
ggml_type kv_type(const power_context_params & params);                           // open_checks.cpp
void check_head_rows(const power_model * model, const power_context_params & params);  // head_rows.cpp
void take_few_head_rows(power_context * context, const power_context_params & params);
void check_processors(const power_context_params & params);                       // compute_threads.cpp
void place_threads(power_context * context, const power_context_params & params);
void compute_capability(const char * device_name, int32_t & major, int32_t & minor);  // cuda.cpp
int32_t physical_rows(const power_context_params & params);
int32_t embedding_row_width(const power_model * model);
void model_release(power_model * model);
void context_release(power_context * context);

// ---- evaluation (evaluate.cpp); callers hold the context
void evaluate_rows(power_context * context, const power_rows & rows);

// ---- outputs (outputs.cpp)
void check_output_row(const power_context * context, int32_t row);
const float * logits_of_row(power_context * context, int32_t row);
int32_t device_choice_at_row(power_context * context, int32_t row);  // device_choice.cpp
struct Choice {
    int32_t token;
    float logit;
};
// Largest logit, lowest id on ties. Returns false when there is a NaN or no finite maximum.
bool choose_largest(const float * logits, int32_t count, Choice & choice);
float softmax_of_largest(const float * logits, int32_t count, float largest);
Choice choose_at_row(power_context * context, int32_t row, float * probability);
// Draws at a row of the last evaluation and accepts the drawn token; the context is in use by the caller.
int32_t sample_at_row(power_sampler * sampler, power_context * context, int32_t row);  // sampler.cpp

// ---- taps (taps.cpp)
void check_state_width(const power_model * model);
const float * nextn_row(power_context * context, int32_t row);
void read_nextn(power_context * context, int32_t first_row, int32_t n_rows, float * out);
void read_layers(power_context * context, const uint32_t * layers, uint32_t n_layers, int32_t first_row, int32_t n_rows,
                 float * out);

// ---- drafting (chain.cpp, block.cpp); the number of drafts is in `out_count`
void draft_chain(power_context * context, power_chain & chain);
void draft_block(power_context * context, power_block & block);

// ---- sequences (sequences.cpp)
void check_sequence_id(const power_context * context, int32_t seq_id);
int32_t stored_length(power_context * context, int32_t seq_id);
int32_t first_held_position(power_context * context, int32_t seq_id);
// True when every position that attention at `length_tokens` can see is still held: the window - 1 before it.
bool window_is_whole(power_context * context, int32_t seq_id, int32_t length_tokens);
int32_t rollback_rows(power_context * context, int32_t seq_id);
void clear_sequence(power_context * context, int32_t seq_id);
void truncate_sequence(power_context * context, int32_t seq_id, int32_t length_tokens);

// Rows written on top of a sequence for the length of a scope. They are dropped at its end whatever happened; what
// cannot be dropped makes the sequence stale.
class TemporaryRows {
public:
    TemporaryRows(power_context * context, int32_t seq_id, int32_t length_tokens)
        : context_(context), seq_id_(seq_id), length_(length_tokens) {}
    ~TemporaryRows();
    void drop() { truncate_sequence(context_, seq_id_, length_); }
    TemporaryRows(const TemporaryRows &) = delete;
    TemporaryRows & operator=(const TemporaryRows &) = delete;

private:
    power_context * context_;
    int32_t seq_id_;
    int32_t length_;
};

// Recurrent cells move when sequences share an evaluation; sequences that were moved lose their snapshots.
void remember_cells(power_context * context);
void settle_bystanders(power_context * context, bool failed);
// True when one of several sequences of the evaluation at hand has its state in another cell than before.
bool touched_moved(const power_context * context);

}  // namespace power

#endif
