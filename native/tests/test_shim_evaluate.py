"""What evaluate.cpp does when the memory is not what it has to be; a few lines stand for llama.cpp."""

import os
import shlex
import subprocess
from pathlib import Path

SHIM = Path(__file__).resolve().parent.parent / "shim"
LLAMA_H = """#pragma once
#include <cstdint>
typedef int32_t llama_pos, llama_token, llama_seq_id;
struct llama_model; struct llama_vocab; struct llama_context; struct llama_memory_i; struct llama_sampler;
enum ggml_type { GGML_TYPE_F16 };
struct llama_batch {
    int32_t n_tokens; llama_token *token; float *embd; llama_pos *pos; int32_t *n_seq_id; llama_seq_id **seq_id;
    int8_t *logits;
};
inline int32_t llama_vocab_n_tokens(const llama_vocab *) { return 100; }
inline int32_t llama_decode(llama_context *, llama_batch) { return 0; }
inline void llama_sampler_free(llama_sampler *) {}
inline bool llama_memory_seq_rm(llama_memory_i *, llama_seq_id, llama_pos, llama_pos) { return true; }
"""
GGML_BACKEND_H = """#pragma once
struct ggml_context; struct ggml_tensor; struct ggml_backend_buffer;
typedef ggml_backend_buffer *ggml_backend_buffer_t;
inline void ggml_free(ggml_context *) {}
inline void ggml_backend_buffer_free(ggml_backend_buffer_t) {}
"""
PROGRAM = """
#include "evaluate.cpp"
#include <cstdio>

static const int32_t held[] = {9, 3, 8, 1};  // what the memory says afterwards; 2, 3, 1 and 1 rows were evaluated

namespace power {
void fail(power_status status, const char *, ...) { throw Failure{status, ""}; }
void library_init() {}
uint64_t log_position() { return 0; }
bool error_usable(const power_error *) { return true; }
void error_clear(power_error *) {}
power_status error_report(power_error *, power_status status, const std::string &, uint64_t) { return status; }
ContextUse::ContextUse(power_context *context) : context_(context) {}
ContextUse::~ContextUse() {}
void check_sequence_id(const power_context *, int32_t) {}
int32_t stored_length(power_context *, int32_t seq_id) { return held[seq_id]; }
bool window_is_whole(power_context *, int32_t, int32_t) { return true; }
void remember_cells(power_context *) {}
void settle_bystanders(power_context *, bool) {}
bool touched_moved(const power_context *) { return false; }
void ThreadsFree::operator()(ggml_threadpool *) const {}
}

int main() {
    power_model model;
    power_context context;
    context.model = &model;
    context.ctx_tokens = context.batch_rows = context.output_rows = 8;
    context.sequence_count = 4;
    context.sequences.resize(4);
    context.row_counts.resize(4);
    context.positions.resize(8);
    context.seq_ids.resize(8);
    context.wants_logits.resize(8);
    const int32_t tokens[] = {1, 2, 3, 4, 5, 6, 7}, positions[] = {0, 1, 0, 1, 2, 0, 0}, ids[] = {0, 0, 1, 1, 1, 2, 3};
    const int8_t wants[7] = {};
    power_rows rows = {sizeof(power_rows), 7, tokens, nullptr, nullptr, positions, ids, wants};
    printf("%d", power_evaluate(&context, &rows, nullptr));
    for (const power::Sequence & sequence : context.sequences) {
        printf(" %d/%d", sequence.expected_tokens, sequence.stale ? 1 : 0);
    }
}
"""
POWER_COMPUTE_FAILED = 6


def test_every_sequence_is_settled_when_some_are_wrong_after_an_evaluation(tmp_path):
    headers = {"llama.h": LLAMA_H, "ggml-backend.h": GGML_BACKEND_H, "llama-memory-recurrent.h": ""}
    for name, text in {**headers, "program.cpp": PROGRAM}.items():
        (tmp_path / name).write_text(text)
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    command = [*compiler, "-std=c++17", "-O0", f"-I{tmp_path}", f"-I{SHIM}", "-o", "program", "program.cpp"]
    subprocess.run(command, cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True).stdout
    assert said == f"{POWER_COMPUTE_FAILED} 2/1 3/0 1/1 1/0"
