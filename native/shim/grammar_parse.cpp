// Reading a grammar with the library's parser, so that a mistake is reported with its place.

#include "grammar.h"

#include <cstring>

namespace power {

namespace {

const char * skip_space(const char * at) {
    while (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n' || *at == '#') {
        at += *at == '#' ? strcspn(at, "\r\n") : 1;
    }
    return at;
}

// The parser says "expecting X at REST", REST being the text from the place on.
[[noreturn]] void report(const std::string & text, size_t rule_start, const std::string & said) {
    const size_t split = said.find(" at ");
    const std::string rest = split == std::string::npos ? std::string() : said.substr(split + 4);
    if (split == std::string::npos || rest.size() > text.size() ||
        text.compare(text.size() - rest.size(), rest.size(), rest) != 0) {
        fail(POWER_BAD_GRAMMAR, "in the rule at %s: %.200s", place_in(text, rule_start).c_str(), said.c_str());
    }
    const std::string near = rest.substr(0, rest.find_first_of("\r\n")).substr(0, 40);
    fail(POWER_BAD_GRAMMAR, "%s: %s%s%s", place_in(text, text.size() - rest.size()).c_str(),
         said.substr(0, split).c_str(), near.empty() ? ", found the end of the line" : ", found: ", near.c_str());
}

void check_defined_once(const llama_grammar_parser & parser, const std::string & text, const char * at) {
    const size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");
    const std::string name(at, length);
    const auto known = parser.symbol_ids.find(name);
    if (known != parser.symbol_ids.end() && known->second < parser.rules.size() &&
        !parser.rules[known->second].empty()) {
        fail(POWER_BAD_GRAMMAR, "%s: rule `%s` is defined twice", place_in(text, (size_t) (at - text.c_str())).c_str(),
             name.c_str());
    }
}

void check_all_defined(const llama_grammar_parser & parser) {
    for (const auto & symbol : parser.symbol_ids) {
        if (symbol.second >= parser.rules.size() || parser.rules[symbol.second].empty()) {
            fail(POWER_BAD_GRAMMAR, "rule `%s` is used and not defined", symbol.first.c_str());
        }
    }
    if (parser.symbol_ids.find("root") == parser.symbol_ids.end()) {
        fail(POWER_BAD_GRAMMAR, "there is no rule `root`, where the text begins");
    }
}

void check_tokens(const llama_grammar_parser & parser, int32_t n_vocab) {
    for (const llama_grammar_rule & rule : parser.rules) {
        for (const llama_grammar_element & element : rule) {
            const bool is_token = element.type == LLAMA_GRETYPE_TOKEN || element.type == LLAMA_GRETYPE_TOKEN_NOT;
            if (is_token && element.value >= (uint32_t) n_vocab) {
                fail(POWER_BAD_GRAMMAR, "token <[%u]> is not in 0..%d", element.value, n_vocab - 1);
            }
        }
    }
}

void check_has_end(const llama_vocab * vocab) {
    for (llama_token token = 0; token < llama_vocab_n_tokens(vocab); ++token) {
        if (llama_vocab_is_eog(vocab, token)) {
            return;
        }
    }
    fail(POWER_UNSUPPORTED, "the model has no end-of-generation token, so a text under a grammar could not end");
}

}  // namespace

void check_grammar(const llama_vocab * vocab, const std::string & text) {
    if (llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_NONE) {
        fail(POWER_UNSUPPORTED, "the model has no tokenizer, so its tokens have no text that a grammar could judge");
    }
    check_has_end(vocab);
    check_grammar_text(text);
    llama_grammar_parser parser(vocab);
    const char * at = skip_space(text.c_str());
    while (*at != '\0') {
        const char * start = at;
        check_defined_once(parser, text, at);
        try {
            at = parser.parse_rule(at);
        } catch (const std::exception & error) {
            report(text, (size_t) (start - text.c_str()), error.what());
        }
    }
    check_all_defined(parser);
    check_tokens(parser, llama_vocab_n_tokens(vocab));
    check_grammar_rules(parser);
}

}  // namespace power
