// Compute threads that stay on chosen processors.

#include "shim_internal.h"

#include "ggml-cpu.h"

#include <algorithm>

namespace power {

void check_processors(const power_context_params & params) {
    for (uint32_t index = 0; index < params.processor_count; ++index) {
        check_not_null(params.processors, "processors");
        if (params.processors[index] >= GGML_MAX_N_THREADS) {
            fail(POWER_INVALID_ARGUMENT, "`processors` has %u, expected 0..%d", params.processors[index],
                 GGML_MAX_N_THREADS - 1);
        }
    }
}

void place_threads(power_context * context, const power_context_params & params) {
    if (params.processor_count == 0) {
        return;
    }
    const int32_t most = std::max(llama_n_threads(context->llama), llama_n_threads_batch(context->llama));
    ggml_threadpool_params pool = ggml_threadpool_params_default(most);
    for (uint32_t index = 0; index < params.processor_count; ++index) {
        pool.cpumask[params.processors[index]] = true;
    }
    context->threads.reset(ggml_threadpool_new(&pool));
    if (context->threads == nullptr) {
        fail(POWER_OUT_OF_MEMORY, "no room for a pool of %d threads", most);
    }
    llama_attach_threadpool(context->llama, context->threads.get(), nullptr);
}

void ThreadsFree::operator()(ggml_threadpool * threads) const {
    ggml_threadpool_free(threads);
}

}  // namespace power
