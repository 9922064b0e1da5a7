// The ways in which a text can be read under a grammar, followed through tokens.

#ifndef POWER_GRAMMAR_READINGS_H
#define POWER_GRAMMAR_READINGS_H

#include "llama-grammar.h"

#include <map>
#include <unordered_map>
#include <vector>

namespace power {

// Readings of the text so far and of it continued by tokens. The library follows every reading of every token by itself,
// whose number is exponential in the characters; here equal sets of readings are one state, and a step from one is taken
// once. What takes too long fails; nothing is remembered beyond the object.
class GrammarReadings {
public:
    // `grammar` lends its rules and is changed by every call.
    GrammarReadings(llama_grammar & grammar, const llama_grammar_stacks & stacks, llama_partial_utf8 partial);

    // Whether a token may follow. An end token may where the text is complete.
    bool allow(llama_token token);

    // The readings after a token, none when it may not follow, and the character that it leaves unfinished.
    llama_grammar_stacks after(llama_token token, llama_partial_utf8 & partial);

private:
    struct State {
        const llama_grammar_stacks * stacks;             // a key of `known_`
        std::unordered_map<uint32_t, size_t> next;       // by character
        std::map<llama_grammar_stacks, size_t> reached;  // by the stacks that expect a character
    };

    size_t state_of(llama_grammar_stacks stacks);
    size_t advance(size_t state, uint32_t character);
    size_t step(size_t state, uint32_t character);
    void spend(size_t cost);
    llama_partial_utf8 decode(const std::string & piece);
    llama_grammar_stacks going_on(size_t state, llama_partial_utf8 partial) const;
    size_t read(llama_partial_utf8 partial);

    llama_grammar & grammar_;
    const llama_partial_utf8 begun_;
    bool complete_ = false;
    llama_grammar_stacks by_token_;  // those that expect a token by its number
    std::vector<State> states_;
    std::map<llama_grammar_stacks, size_t> known_;
    std::vector<uint32_t> characters_;  // of the last decoded token
    size_t cost_ = 0;                   // in looks at a reading
    size_t held_ = 0;                   // readings of all states
};

}  // namespace power

#endif
