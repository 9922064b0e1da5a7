// The grammar's state during generation.

#include "grammar.h"

#include <cmath>

namespace power {

namespace {

// A grammar with this many readings of one text doubles them with every token.
constexpr size_t kMostReadings = 1024;

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
    llama_grammar & grammar = *rules_->grammar;
    grammar.partial_utf8 = partial_;
    grammar.stacks.swap(stacks_);
    try {
        llama_grammar_apply_impl(grammar, candidates);
    } catch (...) {
        grammar.stacks.swap(stacks_);
        throw;
    }
    grammar.stacks.swap(stacks_);
}

bool GrammarState::allows(llama_token token) {
    llama_token_data candidate{token, 0.0f, 0.0f};
    llama_token_data_array one{&candidate, 1, -1, false};
    apply(&one);
    return std::isfinite(candidate.logit);
}

void GrammarState::accept(llama_token token) {
    llama_grammar & grammar = *rules_->grammar;
    grammar.partial_utf8 = partial_;
    grammar.stacks = stacks_;
    llama_grammar_accept_impl(grammar, token);
    if (grammar.stacks.size() > kMostReadings) {
        fail(POWER_BAD_GRAMMAR, "the text so far can be read in %zu ways, at most %zu are followed",
             grammar.stacks.size(), kMostReadings);
    }
    stacks_.swap(grammar.stacks);
    partial_ = grammar.partial_utf8;
}

}  // namespace power
