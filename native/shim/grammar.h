// A GBNF grammar over the model's tokens: what may follow the text so far. Everything that would end the process inside
// llama.cpp is refused before it is called.

#ifndef POWER_GRAMMAR_H
#define POWER_GRAMMAR_H

#include "shim_internal.h"

#include "llama-grammar.h"

#include <memory>
#include <string>

namespace power {

// "line 3, column 7" of a position in a text.
std::string place_in(const std::string & text, size_t offset);

// Refuse a text whose repetitions or nesting would exhaust time, memory or stack in the parser. What is merely wrong is
// left to the parser, whose messages say it better.
void check_grammar_text(const std::string & text);

// Parse and check: every rule defined once, a rule `root`, no recursion that consumes nothing.
void check_grammar(const llama_vocab * vocab, const std::string & text);

// Refuse rules that the library would expand without end, or for too long.
void check_grammar_rules(const llama_grammar_parser & parser);

// The place in a grammar. A copy is independent and cheap: the rules are shared.
class GrammarState {
public:
    GrammarState(const llama_vocab * vocab, const std::string & text);
    void reset();
    // Give what may not follow a logit of -infinity.
    void apply(llama_token_data_array * candidates);
    bool allows(llama_token token);
    // Move on by a token that is allowed. A failure changes nothing.
    void accept(llama_token token);

private:
    struct Rules;
    std::shared_ptr<Rules> rules_;
    llama_grammar_stacks stacks_;
    llama_partial_utf8 partial_{0, 0};
};

}  // namespace power

#endif
