// The grammar's state during generation.

#include "grammar.h"

#include "grammar_readings.h"

#include <cmath>

namespace power {

namespace {

struct GrammarDeleter {
    void operator()(llama_grammar * grammar) const { llama_grammar_free_impl(grammar); }
};

}  // namespace

struct GrammarState::Rules {
    std::unique_ptr<llama_grammar, GrammarDeleter> grammar;
    llama_grammar_stacks start;
};

GrammarState::GrammarState(const llama_vocab * vocab, const std::string & text) : rules_(std::make_shared<Rules>()) {
    check_grammar(vocab, text);
    rules_->grammar.reset(llama_grammar_init_impl(vocab, text.c_str(), "root", false, nullptr, 0, nullptr, 0));
    if (rules_->grammar == nullptr) {
        fail(POWER_BAD_GRAMMAR, "the library refused the grammar");
    }
    rules_->start = rules_->grammar->stacks;
    reset();
}

void GrammarState::reset() {
    stacks_ = rules_->start;
    partial_ = {0, 0};
}

void GrammarState::apply(llama_token_data_array * candidates) {
    GrammarReadings readings(*rules_->grammar, stacks_, partial_);
    for (size_t i = 0; i < candidates->size; ++i) {
        llama_token_data & candidate = candidates->data[i];
        if (!readings.allow(candidate.id)) {
            candidate.logit = -INFINITY;
        }
    }
}

bool GrammarState::allows(llama_token token) {
    return GrammarReadings(*rules_->grammar, stacks_, partial_).allow(token);
}

void GrammarState::accept(llama_token token) {
    llama_partial_utf8 partial = partial_;
    llama_grammar_stacks stacks = GrammarReadings(*rules_->grammar, stacks_, partial_).after(token, partial);
    if (stacks.empty()) {
        fail(POWER_INVALID_ARGUMENT, "the grammar does not allow token %d", token);
    }
    stacks_ = std::move(stacks);
    partial_ = partial;
}

}  // namespace power
