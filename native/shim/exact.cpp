// The switch between fast and row-invariant arithmetic.

#include "shim_internal.h"

#include "llama-context.h"
#include "llama-model.h"

#include "ggml-backend.h"
#include "ggml-cpu.h"

namespace {

// Repacked weights are multiplied by kernels of their own that choose by row count and know no reference mode.
void check_exact_possible(const power_context * context) {
    if (context->model->repacked) {
        power::fail(POWER_UNSUPPORTED, "the model's weights may be repacked; open it with `repack_weights` = 0");
    }
    const bool shares = context->model->llama->output == nullptr && context->other != nullptr;
    if (shares && context->other->model->repacked) {
        power::fail(POWER_UNSUPPORTED, "the weights of the shared head may be repacked; open their model with "
                                       "`repack_weights` = 0");
    }
    ggml_backend_sched_t scheduler = context->llama->get_sched();
    for (int index = 0; index < ggml_backend_sched_get_n_backends(scheduler); ++index) {
        ggml_backend_t backend = ggml_backend_sched_get_backend(scheduler, index);
        if (!ggml_backend_is_cpu(backend)) {
            power::fail(POWER_UNSUPPORTED, "backend '%s' has no row-invariant arithmetic", ggml_backend_name(backend));
        }
    }
}

}  // namespace

extern "C" {

power_status power_context_set_exact(power_context * ctx, uint32_t on, power_error * err) {
    return power::guarded(err, [&] {
        power::ContextUse use(ctx);
        if (on != 0) {
            check_exact_possible(ctx);
        }
        ggml_backend_sched_t scheduler = ctx->llama->get_sched();
        for (int index = 0; index < ggml_backend_sched_get_n_backends(scheduler); ++index) {
            ggml_backend_t backend = ggml_backend_sched_get_backend(scheduler, index);
            if (ggml_backend_is_cpu(backend)) {
                ggml_backend_cpu_set_use_ref(backend, on != 0);
            }
        }
        ctx->exact = on != 0;
    });
}

}  // extern "C"
