// The model's tokenizer.

#include "shim_internal.h"

#include <pthread.h>

#include <exception>
#include <functional>

namespace {

void check_token(const power_model * model, int32_t token) {
    const int32_t n_vocab = llama_vocab_n_tokens(model->vocab);
    if (token < 0 || token >= n_vocab) {
        power::fail(POWER_INVALID_ARGUMENT, "token %d is not in 0..%d", token, n_vocab - 1);
    }
}

// Models without a tokenizer (ids only) abort inside llama.cpp when text is asked of them.
void check_has_tokenizer(const power_model * model) {
    if (llama_vocab_type(model->vocab) == LLAMA_VOCAB_TYPE_NONE) {
        power::fail(POWER_UNSUPPORTED, "the model has no tokenizer, only token ids");
    }
}

// Some pre-tokenizers are recursive regular expressions that use a few hundred bytes of stack per character of a run.
// A long run (base64, minified code) would overflow the caller's stack and end the process.
constexpr size_t kPlainBytes = 1024;
constexpr size_t kStackBytesPerByte = 1024;
constexpr size_t kStackBytes = 8u << 20;

struct Job {
    const std::function<int32_t()> & run;
    int32_t result;
    std::exception_ptr error;
};

void * run_job(void * argument) {
    Job & job = *static_cast<Job *>(argument);
    try {
        job.result = job.run();
    } catch (...) {
        job.error = std::current_exception();
    }
    return nullptr;
}

// Run on a thread whose stack is as deep as the text asks for; pages that are not touched cost nothing.
int32_t run_with_deep_stack(size_t text_bytes, const std::function<int32_t()> & run) {
    if (text_bytes <= kPlainBytes) {
        return run();
    }
    Job job{run, 0, nullptr};
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_t thread;
    const int sized = pthread_attr_setstacksize(&attributes, kStackBytes + text_bytes * kStackBytesPerByte);
    const int started = sized != 0 ? sized : pthread_create(&thread, &attributes, run_job, &job);
    pthread_attr_destroy(&attributes);
    if (started != 0) {
        power::fail(POWER_OUT_OF_MEMORY, "no stack for tokenizing %zu bytes of text in one piece; use a shorter text",
                    text_bytes);
    }
    pthread_join(thread, nullptr);
    if (job.error) {
        std::rethrow_exception(job.error);
    }
    return job.result;
}

}  // namespace

extern "C" {

power_status power_tokenize(const power_model * model, const char * text, uint32_t text_bytes, uint32_t add_special,
                            uint32_t parse_special, int32_t * tokens, uint32_t capacity, uint32_t * count,
                            power_error * err) {
    return power::guarded(err, [&] {
        power::check_not_null(model, "model");
        power::check_not_null(text, "text");
        power::check_not_null(count, "count");
        check_has_tokenizer(model);
        if (text_bytes > INT32_MAX || capacity > INT32_MAX || (tokens == nullptr && capacity > 0)) {
            power::fail(POWER_INVALID_ARGUMENT, "`text_bytes` %u or `capacity` %u is out of range", text_bytes,
                        capacity);
        }
        const int32_t written = run_with_deep_stack(text_bytes, [&] {
            return llama_tokenize(model->vocab, text, (int32_t) text_bytes, tokens, (int32_t) capacity,
                                  add_special != 0, parse_special != 0);
        });
        if (written == INT32_MIN) {
            power::fail(POWER_INVALID_ARGUMENT, "the text of %u bytes has too many tokens", text_bytes);
        }
        *count = (uint32_t) (written < 0 ? -written : written);
    });
}

power_status power_token_bytes(const power_model * model, int32_t token, uint32_t special, char * buffer,
                               uint32_t capacity, uint32_t * length, power_error * err) {
    return power::guarded(err, [&] {
        power::check_not_null(model, "model");
        power::check_not_null(length, "length");
        check_has_tokenizer(model);
        check_token(model, token);
        if (capacity > INT32_MAX || (buffer == nullptr && capacity > 0)) {
            power::fail(POWER_INVALID_ARGUMENT, "`capacity` %u is out of range", capacity);
        }
        const int32_t written =
            llama_token_to_piece(model->vocab, token, buffer, (int32_t) capacity, 0, special != 0);
        *length = (uint32_t) (written < 0 ? -written : written);
    });
}

int32_t power_token_is_end(const power_model * model, int32_t token) {
    if (model == nullptr || token < 0 || token >= llama_vocab_n_tokens(model->vocab)) {
        return 0;
    }
    return llama_vocab_is_eog(model->vocab, token) ? 1 : 0;
}

}  // extern "C"
