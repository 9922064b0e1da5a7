// Limits of a grammar's rules: the library expands them depth first and must come to an end.

#include "grammar.h"

#include <algorithm>
#include <map>

namespace power {

namespace {

constexpr size_t kMostDepth = 4096;        // the library recurses once per level
constexpr uint64_t kMostVisits = 20000000;  // about a second of its time

// A rule that may begin with another; `at_end`: nothing stands behind the other.
struct Edge {
    size_t to;
    bool at_end;
};

bool is_end(const llama_grammar_element & element) {
    return element.type == LLAMA_GRETYPE_END || element.type == LLAMA_GRETYPE_ALT;
}

// Which rules may be empty: those with an alternative that consists of such rules alone. Linear in the rules' size.
std::vector<bool> nullable_rules(const llama_grammar_rules & rules) {
    struct Alternative {
        size_t rule;
        size_t open;
    };
    std::vector<Alternative> alternatives;
    std::vector<std::vector<size_t>> users(rules.size());
    std::vector<size_t> found;
    std::vector<bool> nullable(rules.size(), false);
    const auto close = [&](size_t alternative) {
        const Alternative & closed = alternatives[alternative];
        if (closed.open == 0 && !nullable[closed.rule]) {
            nullable[closed.rule] = true;
            found.push_back(closed.rule);
        }
    };
    for (size_t rule = 0; rule < rules.size(); ++rule) {
        size_t start = 0;
        for (size_t i = 0; i < rules[rule].size(); ++i) {
            if (!is_end(rules[rule][i])) {
                continue;
            }
            const bool only_rules = std::all_of(rules[rule].begin() + start, rules[rule].begin() + i,
                                                [](const auto & e) { return e.type == LLAMA_GRETYPE_RULE_REF; });
            if (only_rules) {
                alternatives.push_back({rule, i - start});
                for (size_t at = start; at < i; ++at) {
                    users[rules[rule][at].value].push_back(alternatives.size() - 1);
                }
                close(alternatives.size() - 1);
            }
            start = i + 1;
        }
    }
    while (!found.empty()) {
        const size_t rule = found.back();
        found.pop_back();
        for (const size_t alternative : users[rule]) {
            --alternatives[alternative].open;
            close(alternative);
        }
    }
    return nullable;
}

std::vector<std::vector<Edge>> first_rules(const llama_grammar_rules & rules) {
    const std::vector<bool> nullable = nullable_rules(rules);
    std::vector<std::vector<Edge>> edges(rules.size());
    for (size_t rule = 0; rule < rules.size(); ++rule) {
        bool at_start = true;
        for (size_t i = 0; i < rules[rule].size(); ++i) {
            const llama_grammar_element & element = rules[rule][i];
            if (is_end(element)) {
                at_start = true;
            } else if (element.type != LLAMA_GRETYPE_RULE_REF) {
                at_start = false;
            } else if (at_start) {
                edges[rule].push_back({element.value, is_end(rules[rule][i + 1])});
                at_start = nullable[element.value];
            }
        }
    }
    return edges;
}

// Strongly connected groups in the order in which everything they lead to comes first (Tarjan, without recursion).
std::vector<std::vector<size_t>> groups_of(const std::vector<std::vector<Edge>> & edges) {
    struct Visit {
        size_t rule;
        size_t next_edge;
    };
    constexpr size_t kUnseen = SIZE_MAX;
    std::vector<size_t> order(edges.size(), kUnseen), low(edges.size());
    std::vector<bool> waiting(edges.size(), false);
    std::vector<size_t> stack;
    std::vector<Visit> visits;
    std::vector<std::vector<size_t>> groups;
    size_t seen = 0;
    const auto enter = [&](size_t rule) {
        order[rule] = low[rule] = seen++;
        waiting[rule] = true;
        stack.push_back(rule);
        visits.push_back({rule, 0});
    };
    const auto leave = [&](size_t rule) {
        if (low[rule] == order[rule]) {
            groups.emplace_back();
            do {
                groups.back().push_back(stack.back());
                waiting[stack.back()] = false;
                stack.pop_back();
            } while (groups.back().back() != rule);
        }
        visits.pop_back();
        if (!visits.empty()) {
            low[visits.back().rule] = std::min(low[visits.back().rule], low[rule]);
        }
    };
    for (size_t start = 0; start < edges.size(); ++start) {
        if (order[start] == kUnseen) {
            enter(start);
        }
        while (!visits.empty()) {
            Visit & visit = visits.back();
            if (visit.next_edge == edges[visit.rule].size()) {
                leave(visit.rule);
                continue;
            }
            const size_t to = edges[visit.rule][visit.next_edge++].to;
            if (order[to] == kUnseen) {
                enter(to);
            } else if (waiting[to]) {
                low[visit.rule] = std::min(low[visit.rule], order[to]);
            }
        }
    }
    return groups;
}

std::string name_of(const llama_grammar_parser & parser, size_t rule) {
    for (const auto & symbol : parser.symbol_ids) {
        if (symbol.second == rule) {
            return symbol.first;
        }
    }
    return "?";
}

}  // namespace

void check_grammar_rules(const llama_grammar_parser & parser) {
    const std::vector<std::vector<Edge>> edges = first_rules(parser.rules);
    std::vector<size_t> group_of(edges.size(), SIZE_MAX), depth;
    std::vector<uint64_t> visits;
    uint64_t total = 0;
    for (const std::vector<size_t> & members : groups_of(edges)) {
        const size_t group = depth.size();
        for (const size_t rule : members) {
            group_of[rule] = group;
        }
        size_t deepest = 0;
        uint64_t each = 1;
        for (const size_t rule : members) {
            for (const Edge & edge : edges[rule]) {
                if (group_of[edge.to] != group) {
                    deepest = std::max(deepest, depth[group_of[edge.to]]);
                    each = std::min(each + visits[group_of[edge.to]], kMostVisits + 1);
                } else if (!edge.at_end) {
                    fail(POWER_BAD_GRAMMAR, "rule `%s` may begin with itself (left recursion)",
                         name_of(parser, rule).c_str());
                }
            }
        }
        depth.push_back(deepest + members.size());
        visits.push_back(std::min(each * members.size(), kMostVisits + 1));
        total += visits.back() * members.size();
        if (depth.back() > kMostDepth || total > kMostVisits) {
            fail(POWER_BAD_GRAMMAR, "the rules that `%s` may begin with are nested too deeply or have too many readings",
                 name_of(parser, members.front()).c_str());
        }
    }
}

}  // namespace power
