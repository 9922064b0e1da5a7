// The ABI of libpower_native: everything that crosses between Python and the pinned llama.cpp.
//
// Rules. Only `power_*` symbols are exported, with C linkage; no structure and no exception of llama.cpp crosses.
// Every function that can fail returns `power_status` and fills `*err` (which may be null). Structures begin with
// `uint32_t size`, set by the caller to its own sizeof; a size that differs is POWER_ABI_MISMATCH.
// Handles are owned by the caller and freed with the matching `_close`, which accepts null. A model should outlive its
// contexts, and a context every context opened with it as `other`; closed too early, it stays alive until the last of
// them closes. A sampler keeps its model alive likewise, and is independent of contexts.
// Threads: a context is used by one caller at a time. A second caller gets POWER_BUSY at once; nothing queues.
// `power_context_abort` and `power_context_clear_abort` may be called from any thread at any time.
// What drafts and whole rounds is in power_drafting.h. Both headers are read by tools/generate_raw.py: keep to plain
// declarations, one per statement.

#ifndef POWER_SHIM_H
#define POWER_SHIM_H

#include <stdint.h>

#if defined(_WIN32)
#define POWER_API __declspec(dllexport)
#else
#define POWER_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define POWER_ABI_VERSION 6

typedef int32_t power_status;

enum power_status_code {
    POWER_OK = 0,
    POWER_INVALID_ARGUMENT = 1,
    POWER_ABI_MISMATCH = 2,
    POWER_LOAD_FAILED = 3,
    POWER_CONTEXT_FULL = 4,
    POWER_ABORTED = 5,
    POWER_COMPUTE_FAILED = 6,
    POWER_BUSY = 7,
    POWER_ROLLBACK_REFUSED = 8,
    POWER_STALE = 9,
    POWER_UNSUPPORTED = 10,
    POWER_OUT_OF_MEMORY = 11,
    POWER_EXCEPTION = 12,
    POWER_NO_FINITE_LOGIT = 13,
    POWER_BAD_GRAMMAR = 14
};

// Text is UTF-8 and always terminated. `log_tail` is what the library itself last said.
typedef struct power_error {
    uint32_t size;
    int32_t status;
    char text[1024];
    char log_tail[4096];
} power_error;

typedef struct power_model power_model;
typedef struct power_context power_context;
typedef struct power_sampler power_sampler;

// Return 0 to stop loading; `fraction` is 0..1.
typedef int32_t (*power_progress)(float fraction, void *user_data);

// ---------------------------------------------------------------- library

typedef struct power_build_info {
    uint32_t size;
    uint32_t abi_version;
    uint32_t gpu_offload;      // 1 when a device that takes layers was found
    uint32_t reserved;
    char llama_commit[64];     // commit pinned in UPSTREAM.toml
    char llama_version[64];
    char content_key[128];     // key of the build cache
    char compiler[128];
    char cmake_args[512];
    char cpu_features[512];    // as ggml reports them, "NAME=1" separated by blanks
} power_build_info;

typedef struct power_device_info {
    uint32_t size;
    int32_t type;              // 0 CPU, 1 GPU, 2 integrated GPU, 3 accelerator
    uint64_t memory_free_bytes;
    uint64_t memory_total_bytes;
    int32_t compute_major;     // CUDA compute capability, 0 on other devices
    int32_t compute_minor;
    char name[64];
    char description[128];
    char bus_id[64];           // PCI address, empty where the backend does not tell
} power_device_info;

// CUDA versions are 1000 x major + 10 x minor, as CUDA counts them; 0 = there is none.
typedef struct power_cuda_info {
    uint32_t size;
    int32_t compiled_version;  // of the toolkit; 0: compiled without CUDA, and everything below is 0 or empty
    int32_t runtime_version;   // of the runtime library in use
    int32_t driver_version;    // newest version that the driver supports; 0 = no driver
    int32_t device_count;
    int32_t error_code;        // cudaError_t of the search for devices, 0 = none
    char error_name[64];
    char error_text[256];
} power_cuda_info;

// sizeof of a structure and the offset of each of its members, in declaration order, as the library was compiled.
// `name` is the structure's name. `offsets` has room for `capacity` values; `*count` receives the number of members.
POWER_API power_status power_struct_layout(const char *name, uint32_t *size, uint32_t *offsets, uint32_t capacity,
                                           uint32_t *count, power_error *err);
POWER_API uint32_t power_abi_version(void);
POWER_API power_status power_build_info_get(power_build_info *info, power_error *err);
POWER_API uint32_t power_device_count(void);
POWER_API power_status power_device_get(uint32_t index, power_device_info *info, power_error *err);
// What a CUDA build found on this machine; never fails for a missing driver.
POWER_API power_status power_cuda_info_get(power_cuda_info *info, power_error *err);
// Copy the captured log's last bytes; `*written` excludes the terminator.
POWER_API power_status power_log_tail(char *buffer, uint32_t capacity, uint32_t *written, power_error *err);
// Take over (1) or release (0) the library's log; while captured nothing is printed.
POWER_API void power_log_capture(int32_t on);
// Requantise a GGUF file. `ftype_name` is a llama.cpp name such as "Q8_0", "Q4_K_M", "F16".
POWER_API power_status power_quantize(const char *path_in, const char *path_out, const char *ftype_name, int32_t threads,
                                      int32_t pure, power_error *err);

// ---------------------------------------------------------------- model

typedef struct power_model_params {
    uint32_t size;
    int32_t gpu_layers;        // negative: all; 0: no GPU is used at all
    uint32_t load_nextn;       // 1: load multi-token-prediction layers
    uint32_t repack_weights;   // 1: allow repacked weight buffers (fast arithmetic only)
    uint32_t use_mmap;
    uint32_t use_mlock;
    power_progress progress;   // may be null
    void *progress_user_data;
    const char *device;        // the only GPU that is used: its name, or its number among the GPUs; null: every GPU
    const char *placements;    // lines "PATTERN=BUFFER": tensors whose name the pattern (std::regex) finds go there
} power_model_params;

typedef struct power_model_info {
    uint32_t size;
    int32_t n_vocab;
    int32_t n_embd;
    int32_t n_layer;           // trunk layers, without nextn layers
    int32_t n_layer_nextn;     // nextn layers that were loaded
    int32_t n_ctx_train;
    int32_t n_swa;             // sliding window in tokens, 0 = none
    uint32_t recurrent;        // 1: recurrent or hybrid
    uint32_t add_bos;
    int32_t bos;               // -1 = none
    int32_t eos;
    int32_t mask;
    uint32_t has_layer_taps;   // 1: the architecture exposes layer inputs
    uint32_t has_nextn_rows;   // 1: the architecture exposes nextn state rows
    int32_t n_embd_in;         // width of an embedding row that a context of the model takes
    uint32_t reserved;
    uint64_t size_bytes;
    char architecture[64];
    char description[128];
    char devices[256];         // names of the devices that hold layers, separated by blanks; empty = the CPU only
} power_model_info;

POWER_API power_status power_model_open(const char *path, const power_model_params *params, power_model **out,
                                        power_error *err);
POWER_API void power_model_close(power_model *model);
POWER_API power_status power_model_info_get(const power_model *model, power_model_info *info, power_error *err);
// Metadata value as text. `*length` is the full length; the copy is cut at capacity - 1. Absent key: POWER_UNSUPPORTED.
POWER_API power_status power_model_meta(const power_model *model, const char *key, char *buffer, uint32_t capacity,
                                        uint32_t *length, power_error *err);
// The model's own chat template; absent: POWER_UNSUPPORTED.
POWER_API power_status power_model_chat_template(const power_model *model, char *buffer, uint32_t capacity,
                                                 uint32_t *length, power_error *err);
// `*count` is the number of tokens; when it exceeds capacity nothing is written beyond capacity and the call must be
// repeated.
POWER_API power_status power_tokenize(const power_model *model, const char *text, uint32_t text_bytes, uint32_t add_special,
                                      uint32_t parse_special, int32_t *tokens, uint32_t capacity, uint32_t *count,
                                      power_error *err);
// The bytes a token adds to the text; `*length` may exceed capacity, then repeat.
POWER_API power_status power_token_bytes(const power_model *model, int32_t token, uint32_t special, char *buffer,
                                         uint32_t capacity, uint32_t *length, power_error *err);
POWER_API int32_t power_token_is_end(const power_model *model, int32_t token);
// 1 when the architecture's graph exposes the inputs of its layers (`general.architecture` of a file), else 0.
POWER_API int32_t power_exposes_layer_inputs(const char *architecture);

// ---------------------------------------------------------------- context

enum power_context_kind {
    POWER_CONTEXT_TARGET = 0,
    POWER_CONTEXT_NEXTN = 1,   // runs the nextn head of the same model; rows need a token and a state row
    POWER_CONTEXT_DRAFT = 2    // a block drafter's own model
};

typedef struct power_context_params {
    uint32_t size;
    uint32_t kind;             // power_context_kind
    uint32_t ctx_tokens;       // per sequence
    uint32_t batch_rows;       // most rows of one evaluation
    uint32_t physical_rows;    // rows computed at once, at least snapshots + 2 and sequences; 0 = batch_rows
    uint32_t sequences;
    uint32_t snapshots;        // recurrent-state snapshots asked for
    int32_t threads;           // <= 0: the library's choice
    int32_t flash_attention;   // -1 auto, 0 off, 1 on
    uint32_t output_rows;      // most rows with logits in one evaluation, at least `sequences`; 0 = batch_rows
    uint32_t causal;           // 0: non-causal attention; needs physical_rows 0 or batch_rows
    int32_t rows_threads;      // threads of evaluations of several rows; <= 0: `threads`
    power_context *other;      // the target context a drafter shares embeddings, head or memory with; may be null
    const char *kv_type;       // type of keys and values, by ggml's name; null: "f16"
    const uint32_t *processors;  // the compute threads run on these only; null: wherever the system puts them
    uint32_t processor_count;
    uint32_t head_rows;        // POWER_CONTEXT_NEXTN: tokens that have logits, the others' are -INFINITY; 0: all have
    const int32_t *head_tokens;  // which ones, head_rows different tokens, copied with their rows; null: the first ones
} power_context_params;

typedef struct power_context_info {
    uint32_t size;
    uint32_t ctx_tokens;       // as granted (padded up by the library)
    uint32_t batch_rows;
    uint32_t physical_rows;
    uint32_t sequences;
    uint32_t snapshots;        // granted; the library may clamp silently
    int32_t threads;
    uint32_t flash_attention;  // 1: in use as asked; resolved by the library when auto
    uint32_t exact;            // current state of the exact switch
    int32_t rows_threads;
    uint64_t memory_bytes;     // device and host buffers of this context
    uint64_t head_bytes;       // of them, what `head_rows` added: token ids, and copied rows where tokens were named
} power_context_info;

// One evaluation. Arrays have n_rows entries. A target context takes tokens; a nextn context tokens with states; a
// draft context tokens or embeddings, and then no row wants logits. Rows of a sequence continue at its end. Everything
// is checked before anything runs; a refusal changes nothing and keeps the last outputs readable.
// POWER_CONTEXT_FULL: memory unchanged. POWER_ABORTED, POWER_COMPUTE_FAILED: sequences without recurrent state are back
// at their old length; those with it are stale until power_checkpoint_restore or power_memory_clear.
// Block drafters (architecture dflash): blocks of equal size per sequence, at most the model's block size and together
// at most physical_rows, logits for all rows or none.
typedef struct power_rows {
    uint32_t size;
    int32_t n_rows;
    const int32_t *tokens;     // may be null when `embeddings` is set
    const float *embeddings;   // n_rows x n_embd_in, or null
    const float *states;       // n_rows x n_embd, or null; only for POWER_CONTEXT_NEXTN
    const int32_t *positions;
    const int32_t *seq_ids;
    const int8_t *wants_logits;
} power_rows;

POWER_API power_status power_context_open(power_model *model, const power_context_params *params, power_context **out,
                                          power_error *err);
POWER_API void power_context_close(power_context *ctx);
POWER_API power_status power_context_info_get(power_context *ctx, power_context_info *info, power_error *err);
// Row-invariant arithmetic on (1) or off (0) for the following evaluations: a row's bits do not depend on the other
// rows.
// POWER_UNSUPPORTED when a backend of the context has none (every backend but the CPU), or when the model was opened
// with repack_weights. A model opened with gpu_layers 0 has the CPU only.
POWER_API power_status power_context_set_exact(power_context *ctx, uint32_t on, power_error *err);
// Choose greedily on the device (1): an evaluation computes the largest logit's token of every row that wants logits in
// its own graph, and no logits come to the host. power_argmax and the drafting primitives then return the device's
// choice; what needs logits or a probability is POWER_UNSUPPORTED. A change drops the last outputs.
POWER_API power_status power_context_choose_on_device(power_context *ctx, uint32_t on, power_error *err);
// Stop the running evaluation at its next graph node and refuse every later one until power_context_clear_abort.
POWER_API void power_context_abort(power_context *ctx);
POWER_API void power_context_clear_abort(power_context *ctx);
// Testing aid: abort after this many graph nodes of the next evaluation, once; negative switches it off.
POWER_API void power_context_abort_after(power_context *ctx, int64_t nodes);
// Nanoseconds inside llama.cpp and ggml calls made through this context, and the number of evaluations.
POWER_API void power_context_counters(power_context *ctx, uint64_t *compute_ns, uint64_t *evaluations);
// Expose nextn state rows: `masked` 1 keeps only rows with logits. POWER_UNSUPPORTED names the architecture.
POWER_API power_status power_context_tap_nextn(power_context *ctx, uint32_t on, uint32_t masked, power_error *err);
POWER_API power_status power_context_tap_layer(power_context *ctx, uint32_t layer, uint32_t on, power_error *err);
// Which nextn block a POWER_CONTEXT_NEXTN context runs.
POWER_API power_status power_context_set_nextn_head(power_context *ctx, uint32_t head, power_error *err);

POWER_API power_status power_evaluate(power_context *ctx, const power_rows *rows, power_error *err);
// Pointers into the context's output, valid until its next evaluation.
POWER_API power_status power_logits(power_context *ctx, int32_t row, const float **out, power_error *err);
// Greedy choice; the lowest id wins ties. `probability` (may be null) receives the softmax value of the choice.
POWER_API power_status power_argmax(power_context *ctx, int32_t row, int32_t *token, float *probability, power_error *err);
// Hidden rows in the order of the evaluation's rows. `power_read_nextn` writes n_rows x n_embd values,
// `power_read_layers` n_rows x n_layers x n_embd: the layers of a row stand side by side, in the order asked for.
POWER_API power_status power_read_nextn(power_context *ctx, int32_t first_row, int32_t n_rows, float *out, power_error *err);
POWER_API power_status power_read_layers(power_context *ctx, const uint32_t *layers, uint32_t n_layers, int32_t first_row,
                                         int32_t n_rows, float *out, power_error *err);

// ---------------------------------------------------------------- memory

typedef struct power_sequence_info {
    uint32_t size;
    uint32_t stale;            // 1: nothing may be evaluated before restore or clear
    int32_t length_tokens;     // counted in the library's memory: last position + 1
    int32_t expected_tokens;   // counted by the shim from evaluations and truncations
    int32_t first_pos;         // oldest position still held, -1 = none
    int32_t rollback_rows;     // rows that power_memory_truncate can drop exactly right now
} power_sequence_info;

POWER_API power_status power_sequence_get(power_context *ctx, int32_t seq_id, power_sequence_info *info, power_error *err);
// Drop positions >= length_tokens, exactly, or POWER_ROLLBACK_REFUSED with the memory unchanged. Length 0 always works.
// Recurrent state goes back min(snapshots, rows of the sequence's last evaluation - 1) rows, once per evaluation.
POWER_API power_status power_memory_truncate(power_context *ctx, int32_t seq_id, int32_t length_tokens, power_error *err);
POWER_API power_status power_memory_clear(power_context *ctx, int32_t seq_id, power_error *err);
// State that truncation cannot rebuild: recurrent, convolution, sliding window. Keys and values are not part of it, so
// the sequence must still hold its first length_tokens positions when it is restored.
POWER_API power_status power_checkpoint_size(power_context *ctx, int32_t seq_id, uint64_t *size_bytes, power_error *err);
POWER_API power_status power_checkpoint_save(power_context *ctx, int32_t seq_id, uint8_t *buffer, uint64_t capacity,
                                             uint64_t *written, power_error *err);
// Restore and drop positions >= length_tokens; the sequence is usable again afterwards, also after an abort.
// `length_tokens` must be the length at which the checkpoint was taken. Other bytes are refused before anything is
// touched; damage inside the state is POWER_COMPUTE_FAILED and leaves the sequence stale.
POWER_API power_status power_checkpoint_restore(power_context *ctx, int32_t seq_id, const uint8_t *buffer, uint64_t size_bytes,
                                                int32_t length_tokens, power_error *err);

// ---------------------------------------------------------------- samplers

// Order: bias, penalties, DRY, top-k, typical, top-p, min-p, XTC, temperature, draw. With a grammar the drawn token is
// checked, and when it is refused drawn once more among the tokens that the grammar allows.
typedef struct power_sampler_params {
    uint32_t size;
    float temperature;         // 0: the largest logit of what is left
    int32_t top_k;             // 0 off
    float top_p;               // 1 off
    float min_p;               // 0 off
    float typical_p;           // 1 off
    float repeat_penalty;      // 1 off
    float frequency_penalty;
    float presence_penalty;
    int32_t repeat_last_n;     // tokens the penalties look back on, 0 off; the window is allocated at once
    float dry_multiplier;      // 0 off
    float dry_base;
    int32_t dry_allowed_length;
    int32_t dry_penalty_last_n; // as repeat_last_n
    float xtc_probability;     // 0 off
    float xtc_threshold;       // above 0.5 off
    uint32_t seed;             // 4294967295 is refused: the library would draw a random seed
    uint32_t n_biases;
    const int32_t *bias_tokens; // n_biases; each token once
    const float *bias_values;  // n_biases; added to the logits; -infinity forbids
    const char *dry_breakers;  // texts of 1..40 bytes, each ended by a 0
    const char *grammar;       // GBNF with a rule `root`; no terminator needed
    uint32_t dry_breakers_bytes;
    uint32_t grammar_bytes;    // 0: no grammar
} power_sampler_params;

// POWER_BAD_GRAMMAR: the text of the error says where.
POWER_API power_status power_sampler_open(power_model *model, const power_sampler_params *params, power_sampler **out,
                                          power_error *err);
// A copy with the same state. Copies share buffers: one thread at a time uses any of them, a second gets POWER_BUSY.
POWER_API power_status power_sampler_clone(const power_sampler *sampler, power_sampler **out, power_error *err);
POWER_API void power_sampler_close(power_sampler *sampler);
// Random states, windows and grammar at their beginning.
POWER_API power_status power_sampler_reset(power_sampler *sampler, power_error *err);
// Take tokens into the windows of penalties and DRY without drawing; a grammar does not see them.
POWER_API power_status power_sampler_accept(power_sampler *sampler, const int32_t *tokens, uint32_t n_tokens, power_error *err);
// Draw at a row of the context's last evaluation and accept the drawn token. POWER_NO_FINITE_LOGIT: no token is allowed.
POWER_API power_status power_sampler_sample(power_sampler *sampler, power_context *ctx, int32_t row, int32_t *token,
                                            power_error *err);

#ifdef __cplusplus
}
#endif

#endif
