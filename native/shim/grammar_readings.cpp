// The ways in which a text can be read under a grammar, followed through tokens.

#include "grammar_readings.h"

#include "shim_internal.h"

#include "llama-vocab.h"

#include <algorithm>

namespace power {

namespace {

constexpr size_t kNone = 0;  // the state without readings
constexpr size_t kStart = 1;
constexpr size_t kMostReadings = 1024;
constexpr size_t kMostHeld = 1'000'000;      // readings of all states together
constexpr size_t kMostCost = 1'000'000'000;  // looks at a reading: seconds of one core
constexpr size_t kAdvanceCost = 100;         // looks that a reading costs which goes on

void check_readings(size_t count) {
    if (count > kMostReadings) {
        fail(POWER_BAD_GRAMMAR, "the text can be read in %zu ways, at most %zu are followed", count, kMostReadings);
    }
}

bool is_token(const llama_grammar_element & element) {
    return element.type == LLAMA_GRETYPE_TOKEN || element.type == LLAMA_GRETYPE_TOKEN_NOT;
}

bool expects(const llama_grammar_element & element, llama_token token) {
    return (element.value == (uint32_t) token) == (element.type == LLAMA_GRETYPE_TOKEN);
}

bool expects(const llama_grammar_element * element, uint32_t character) {
    const bool inverted = element->type == LLAMA_GRETYPE_CHAR_NOT;
    do {
        const bool is_range = element[1].type == LLAMA_GRETYPE_CHAR_RNG_UPPER;
        const uint32_t last = is_range ? element[1].value : element->value;
        if (element->type == LLAMA_GRETYPE_CHAR_ANY || (element->value <= character && character <= last)) {
            return !inverted;
        }
        element += is_range ? 2 : 1;
    } while (element->type == LLAMA_GRETYPE_CHAR_ALT);
    return inverted;
}

bool expects_character(const llama_grammar_stack & stack) {
    return !stack.empty() && !is_token(*stack.back());
}

// How many bytes a character has that begins with this one, 0 for a byte that begins none. The library's reading.
int bytes_of(uint8_t first) {
    return first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

}  // namespace

GrammarReadings::GrammarReadings(llama_grammar & grammar, const llama_grammar_stacks & stacks,
                                 llama_partial_utf8 partial)
    : grammar_(grammar), begun_(partial) {
    state_of({});
    state_of(stacks);
    for (const llama_grammar_stack & stack : stacks) {
        complete_ = complete_ || stack.empty();
        if (!stack.empty() && is_token(*stack.back())) {
            by_token_.push_back(stack);
        }
    }
}

size_t GrammarReadings::state_of(llama_grammar_stacks stacks) {
    std::sort(stacks.begin(), stacks.end());
    const auto [found, is_new] = known_.try_emplace(std::move(stacks), states_.size());
    if (is_new) {
        held_ += found->first.size();
        states_.push_back({&found->first, {}, {}});
    }
    return found->second;
}

void GrammarReadings::spend(size_t cost) {
    cost_ += cost;
    if (cost_ > kMostCost || held_ > kMostHeld) {
        fail(POWER_BAD_GRAMMAR, "the tokens that may follow can be read in too many ways (%zu readings, %zu steps)",
             held_, cost_);
    }
}

size_t GrammarReadings::advance(size_t state, uint32_t character) {
    llama_grammar_stacks expecting;
    for (const llama_grammar_stack & stack : *states_[state].stacks) {
        if (expects_character(stack) && expects(stack.back(), character)) {
            expecting.push_back(stack);
        }
    }
    const auto found = states_[state].reached.find(expecting);
    if (found != states_[state].reached.end()) {
        return found->second;
    }
    spend(kAdvanceCost * expecting.size());
    grammar_.stacks = expecting;
    llama_grammar_accept(&grammar_, character);
    check_readings(grammar_.stacks.size());
    const size_t next = state_of(std::move(grammar_.stacks));
    states_[state].reached.emplace(std::move(expecting), next);
    return next;
}

size_t GrammarReadings::step(size_t state, uint32_t character) {
    const auto found = states_[state].next.find(character);
    if (found != states_[state].next.end()) {
        return found->second;
    }
    spend(states_[state].stacks->size());
    const size_t next = advance(state, character);
    states_[state].next.emplace(character, next);
    return next;
}

// Fill `characters_`; the answer is the character at the end that lacks bytes, -1 of them for what is not UTF-8.
llama_partial_utf8 GrammarReadings::decode(const std::string & piece) {
    static constexpr llama_partial_utf8 kInvalid{0, -1};
    characters_.clear();
    uint32_t value = begun_.value;
    int missing = std::max(begun_.n_remain, 0);
    for (const char each : piece) {
        const uint8_t byte = (uint8_t) each;
        if (missing > 0) {
            if (byte >> 6 != 2) {
                return kInvalid;
            }
            value = (value << 6) + (byte & 0x3fu);
            --missing;
        } else {
            const int bytes = bytes_of(byte);
            if (bytes == 0) {
                return kInvalid;
            }
            missing = bytes - 1;
            value = bytes == 1 ? byte : byte & ((1u << (7 - bytes)) - 1);
        }
        if (missing == 0) {
            characters_.push_back(value);
        }
    }
    return missing == 0 ? llama_partial_utf8{0, 0} : llama_partial_utf8{value, missing};
}

// The readings of a state that go on with a character that begins so: all of them where none is begun.
llama_grammar_stacks GrammarReadings::going_on(size_t state, llama_partial_utf8 partial) const {
    static const uint32_t no_character = 0;
    const llama_grammar_stacks & stacks = *states_[state].stacks;
    if (partial.n_remain == 0) {
        return stacks;
    }
    llama_grammar_stacks kept;
    std::copy_if(stacks.begin(), stacks.end(), std::back_inserter(kept), [&](const llama_grammar_stack & stack) {
        const llama_grammar_candidates unfinished{{0, &no_character, partial, 0}};
        return expects_character(stack) &&
               llama_grammar_reject_candidates_for_stack(grammar_.rules, stack, unfinished).empty();
    });
    return kept;
}

// The state after the decoded characters.
size_t GrammarReadings::read(llama_partial_utf8 partial) {
    size_t state = partial.n_remain < 0 ? kNone : kStart;
    for (size_t i = 0; i < characters_.size() && state != kNone; ++i) {
        state = step(state, characters_[i]);
    }
    return state;
}

bool GrammarReadings::allow(llama_token token) {
    if (grammar_.vocab->is_eog(token)) {
        return complete_;
    }
    const std::string & piece = grammar_.vocab->token_to_piece(token);
    if (piece.empty() || piece[0] == 0) {
        return false;
    }
    const bool is_expected = std::any_of(by_token_.begin(), by_token_.end(),
                                         [&](const auto & stack) { return expects(*stack.back(), token); });
    const llama_partial_utf8 partial = decode(piece);
    if (is_expected && partial.n_remain == 0) {
        return true;
    }
    const size_t state = read(partial);
    return state != kNone && (partial.n_remain == 0 || !going_on(state, partial).empty());
}

llama_grammar_stacks GrammarReadings::after(llama_token token, llama_partial_utf8 & partial) {
    if (grammar_.vocab->is_eog(token)) {
        return *states_[kStart].stacks;
    }
    const std::string & piece = grammar_.vocab->token_to_piece(token);
    partial = decode(piece);
    llama_grammar_stacks readings = going_on(read(partial), partial);
    grammar_.stacks.clear();
    std::copy_if(by_token_.begin(), by_token_.end(), std::back_inserter(grammar_.stacks), [&](const auto & stack) {
        return partial.n_remain == 0 && expects(*stack.back(), token);
    });
    if (!grammar_.stacks.empty()) {
        llama_grammar_accept_token(grammar_, token, piece);
        readings.insert(readings.end(), grammar_.stacks.begin(), grammar_.stacks.end());
    }
    std::sort(readings.begin(), readings.end());
    readings.erase(std::unique(readings.begin(), readings.end()), readings.end());
    check_readings(readings.size());
    return readings;
}

}  // namespace power
