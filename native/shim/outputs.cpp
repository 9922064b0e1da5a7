// Reading the logits of the last evaluation.

#include "shim_internal.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace {

// Independent lanes let the compiler keep the maxima in vector registers without reassociating anything.
constexpr int32_t kLanes = 32;
constexpr int32_t kBlock = 2048;

struct BlockSummary {
    float largest;
    bool has_nan;
};

BlockSummary summarize(const float * values, int32_t count) {
    float largest[kLanes];
    int32_t unordered[kLanes];
    std::fill(largest, largest + kLanes, -std::numeric_limits<float>::infinity());
    std::fill(unordered, unordered + kLanes, 0);
    int32_t at = 0;
    for (; at + kLanes <= count; at += kLanes) {
        for (int32_t lane = 0; lane < kLanes; ++lane) {
            const float value = values[at + lane];
            largest[lane] = value > largest[lane] ? value : largest[lane];
            unordered[lane] |= value != value ? 1 : 0;
        }
    }
    for (int32_t lane = 0; at < count; ++at, ++lane) {
        largest[lane] = values[at] > largest[lane] ? values[at] : largest[lane];
        unordered[lane] |= values[at] != values[at] ? 1 : 0;
    }
    BlockSummary summary{largest[0], unordered[0] != 0};
    for (int32_t lane = 1; lane < kLanes; ++lane) {
        summary.largest = std::max(summary.largest, largest[lane]);
        summary.has_nan = summary.has_nan || unordered[lane] != 0;
    }
    return summary;
}

// Index of the first value from `start` on that equals `wanted`; there is one.
int32_t first_equal(const float * values, int32_t start, int32_t count, float wanted) {
    int32_t at = start;
    for (; at + kLanes <= count; at += kLanes) {
        int32_t found = 0;
        for (int32_t lane = 0; lane < kLanes; ++lane) {
            found |= values[at + lane] == wanted ? 1 : 0;
        }
        if (found != 0) {
            break;
        }
    }
    return (int32_t) (std::find(values + at, values + count, wanted) - values);
}

// e^x for -32 <= x <= 0, to about 1e-7 of itself: 2^n times a polynomial for the fraction. Plain arithmetic without
// branches or calls, so that the lanes below stay in vector registers; the C library's function takes far longer.
inline float exponential(float x) {
    constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding and subtracting it rounds to the nearest integer
    const float power_of_two = x * 1.44269504088896341f;
    const float whole = (power_of_two + kRound) - kRound;
    const float rest = (power_of_two - whole) * 0.693147180559945309f;
    float value = 1.0f / 720.0f;
    value = value * rest + 1.0f / 120.0f;
    value = value * rest + 1.0f / 24.0f;
    value = value * rest + 1.0f / 6.0f;
    value = value * rest + 0.5f;
    value = value * rest + 1.0f;
    value = value * rest + 1.0f;
    const int32_t scale_bits = ((int32_t) whole + 127) << 23;
    float scale;
    memcpy(&scale, &scale_bits, sizeof(scale));
    return value * scale;
}

double sum_of_exponentials(const float * values, int32_t count, float largest) {
    constexpr float kNegligible = -32.0f;  // e^-32 changes nothing in a sum that begins at 1, even a million times
    float distances[kBlock];
    for (int32_t i = 0; i < count; ++i) {
        const float distance = values[i] - largest;
        distances[i] = distance > kNegligible ? distance : kNegligible;
    }
    std::fill(distances + count, distances + kBlock, kNegligible);
    float sums[kLanes] = {};
    for (int32_t at = 0; at < kBlock; at += kLanes) {
        for (int32_t lane = 0; lane < kLanes; ++lane) {
            sums[lane] += exponential(distances[at + lane]);
        }
    }
    double sum = 0.0;
    for (const float lane_sum : sums) {
        sum += lane_sum;
    }
    return sum;
}

}  // namespace

namespace power {

bool choose_largest(const float * logits, int32_t count, Choice & choice) {
    float largest = -std::numeric_limits<float>::infinity();
    int32_t block_start = 0;
    for (int32_t start = 0; start < count; start += kBlock) {
        const BlockSummary summary = summarize(logits + start, std::min(kBlock, count - start));
        if (summary.has_nan) {
            return false;
        }
        if (summary.largest > largest) {
            largest = summary.largest;
            block_start = start;
        }
    }
    if (!std::isfinite(largest)) {
        return false;
    }
    // The first block with the largest value holds its lowest id.
    choice = Choice{first_equal(logits, block_start, count, largest), largest};
    return true;
}

float softmax_of_largest(const float * logits, int32_t count, float largest) {
    double sum = 0.0;
    for (int32_t start = 0; start < count; start += kBlock) {
        sum += sum_of_exponentials(logits + start, std::min(kBlock, count - start), largest);
    }
    return (float) (1.0 / sum);
}

void check_output_row(const power_context * context, int32_t row) {
    if (row < 0 || row >= context->last_rows) {
        fail(POWER_INVALID_ARGUMENT, "row %d is not in the last evaluation of %d rows", row, context->last_rows);
    }
    if (context->wants_logits[(size_t) row] == 0) {
        fail(POWER_INVALID_ARGUMENT, "row %d of the last evaluation did not want logits", row);
    }
}

const float * logits_of_row(power_context * context, int32_t row) {
    check_output_row(context, row);
    if (context->chooses_on_device) {
        fail(POWER_UNSUPPORTED, "the context chooses on the device; the logits of row %d are not on the host", row);
    }
    const ComputeClock clock(context);
    const float * logits = llama_get_logits_ith(context->llama, row);
    if (logits == nullptr) {
        fail(POWER_COMPUTE_FAILED, "the library has no logits for row %d", row);
    }
    return logits;
}

Choice choose_at_row(power_context * context, int32_t row, float * probability) {
    if (context->chooses_on_device && probability == nullptr) {
        return Choice{device_choice_at_row(context, row), 0.0f};
    }
    const float * logits = logits_of_row(context, row);
    const int32_t n_vocab = llama_vocab_n_tokens(context->model->vocab);
    Choice choice{};
    if (!choose_largest(logits, n_vocab, choice)) {
        fail(POWER_NO_FINITE_LOGIT, "row %d has no finite largest logit (a NaN, or nothing above -infinity)", row);
    }
    if (probability != nullptr) {
        *probability = softmax_of_largest(logits, n_vocab, choice.logit);
    }
    return choice;
}

}  // namespace power

extern "C" {

power_status power_logits(power_context * ctx, int32_t row, const float ** out, power_error * err) {
    return power::guarded(err, [&] {
        power::ContextUse use(ctx);
        power::check_not_null(out, "out");
        *out = power::logits_of_row(ctx, row);
    });
}

power_status power_argmax(power_context * ctx, int32_t row, int32_t * token, float * probability, power_error * err) {
    return power::guarded(err, [&] {
        power::ContextUse use(ctx);
        power::check_not_null(token, "token");
        *token = power::choose_at_row(ctx, row, probability).token;
    });
}

}  // extern "C"
