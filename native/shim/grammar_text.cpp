// Limits of a grammar's text, checked before the library's parser sees it.
//
// The parser recurses per parenthesis, copies an item once per repetition, and counts `{m,n}` with n < m down through
// zero. A number above its own limit it reads as "any number", without a word.

#include "grammar.h"

#include <algorithm>

namespace power {

namespace {

constexpr uint64_t kMostRepetitions = 2000;     // the library's limit
constexpr uint64_t kMostElements = 1u << 20;    // of all rules together, after repetitions were written out
constexpr size_t kMostDepth = 200;
constexpr size_t kMostTokenBytes = 256;

bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

class Scanner {
public:
    explicit Scanner(const std::string & text) : text_(text) {}

    void run() {
        while (at_ < text_.size()) {
            step();
        }
    }

private:
    char now() const { return at_ < text_.size() ? text_[at_] : '\0'; }

    void step() {
        switch (now()) {
            case '#': skip_comment(); break;
            case '"': quoted('"'); break;
            case '[': quoted(']'); break;
            case '<': token(); break;
            case '(': open(); break;
            case ')': close(); break;
            case '*':
            case '+':
            case '?': ++at_; repeat(1, 1); break;
            case '{': braces(); break;
            case '.': ++at_; item(1); break;
            default: word(); break;
        }
    }

    void skip_comment() {
        while (at_ < text_.size() && now() != '\n' && now() != '\r') {
            ++at_;
        }
    }

    void skip_space() {
        while (now() == ' ' || now() == '\t' || now() == '\n' || now() == '\r' || now() == '#') {
            now() == '#' ? skip_comment() : (void) ++at_;
        }
    }

    void item(uint64_t elements) {
        item_ = elements;
        count(elements);
    }

    void count(uint64_t elements) {
        total_ += elements;
        if (total_ > kMostElements) {
            fail(POWER_BAD_GRAMMAR, "%s: the rules so far have more than %llu elements once repetitions are written out",
                 place_in(text_, at_).c_str(), (unsigned long long) kMostElements);
        }
    }

    void quoted(char end) {
        const size_t start = at_++;
        while (at_ < text_.size() && now() != end) {
            at_ += now() == '\\' ? 2 : 1;
        }
        ++at_;
        item(at_ - start);
    }

    void token() {
        const size_t start = at_;
        while (at_ < text_.size() && now() != '>') {
            ++at_;
        }
        ++at_;
        if (at_ - start > kMostTokenBytes) {
            fail(POWER_BAD_GRAMMAR, "%s: a token of %zu bytes, expected at most %zu", place_in(text_, start).c_str(),
                 at_ - start, kMostTokenBytes);
        }
        item(1);
    }

    void open() {
        if (++depth_ > kMostDepth) {
            fail(POWER_BAD_GRAMMAR, "%s: more than %zu nested parentheses", place_in(text_, at_).c_str(), kMostDepth);
        }
        ++at_;
    }

    void close() {
        depth_ -= depth_ > 0 ? 1 : 0;
        ++at_;
        item(1);
    }

    void word() {
        if (!is_word(now())) {
            ++at_;
            return;
        }
        while (is_word(now())) {
            ++at_;
        }
        item(1);
    }

    uint64_t number(size_t start) {
        uint64_t value = 0;
        while (now() >= '0' && now() <= '9') {
            value = std::min<uint64_t>(value * 10 + (uint64_t) (now() - '0'), kMostRepetitions + 1);
            ++at_;
        }
        if (value > kMostRepetitions) {
            fail(POWER_BAD_GRAMMAR, "%s: more than %llu repetitions", place_in(text_, start).c_str(),
                 (unsigned long long) kMostRepetitions);
        }
        return value;
    }

    void braces() {
        const size_t start = at_++;
        skip_space();
        const uint64_t least = number(start);
        uint64_t most = least;
        skip_space();
        if (now() == ',') {
            ++at_;
            skip_space();
            const bool bounded = now() >= '0' && now() <= '9';
            most = bounded ? number(start) : std::max<uint64_t>(least, 1);
        }
        if (most < least) {
            fail(POWER_BAD_GRAMMAR, "%s: repetitions from %llu to %llu, expected the smaller number first",
                 place_in(text_, start).c_str(), (unsigned long long) least, (unsigned long long) most);
        }
        skip_space();
        at_ += now() == '}' ? 1 : 0;
        repeat(least, most);
    }

    // An optional repetition becomes a rule of its own: the item, a reference, and two ends.
    void repeat(uint64_t least, uint64_t most) {
        const uint64_t item = item_;
        count(least * item + (most - least + 1) * (item + 3));
        item_ = std::max<uint64_t>(least, 1) * item + 1;
    }

    const std::string & text_;
    size_t at_ = 0;
    size_t depth_ = 0;
    uint64_t item_ = 1;
    uint64_t total_ = 0;
};

}  // namespace

std::string place_in(const std::string & text, size_t offset) {
    const std::string before = text.substr(0, offset);
    const size_t line = (size_t) std::count(before.begin(), before.end(), '\n') + 1;
    const size_t line_start = before.rfind('\n') == std::string::npos ? 0 : before.rfind('\n') + 1;
    return "line " + std::to_string(line) + ", column " + std::to_string(before.size() - line_start + 1);
}

void check_grammar_text(const std::string & text) {
    if (text.find('\0') != std::string::npos) {
        fail(POWER_BAD_GRAMMAR, "%s: a character 0", place_in(text, text.find('\0')).c_str());
    }
    Scanner(text).run();
}

}  // namespace power
