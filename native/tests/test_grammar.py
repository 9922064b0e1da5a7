"""Grammars: what they allow, how they end, and every text that would end the process, refused with its place."""

import re

import pytest

from power_core.errors import ConfigError, NativeCallError
from power_core.sampler import SamplingSettings
from power_core.tokens import SequenceRows

pytestmark = pytest.mark.native

TOKENS = [(7 * index + 11) % 400 for index in range(24)]


@pytest.fixture
def context(open_context):
    context = open_context()
    context.evaluate([SequenceRows(start_pos=0, tokens=TOKENS)], kernels="decode")
    return context


def written(context, grammar, *, seed, most_tokens=24, **settings):
    """Text that a grammar lets through, up to an end token; the rows are those of any text."""
    sampler = context.open_sampler(SamplingSettings(temperature=2.0, seed=seed, grammar=grammar, **settings))
    sampler.begin(TOKENS)
    vocabulary = context.model.vocabulary
    text = b""
    for row in range(most_tokens):
        token = sampler.sample(row % 24)
        if vocabulary.is_end(token):
            return text, True
        text += vocabulary.token_bytes(token)
    return text, False


@pytest.mark.parametrize(
    ("grammar", "pattern"),
    [
        ('root ::= "yes" | "no"', r"yes|no"),
        ("root ::= [0-9]{3}", r"[0-9]{3}"),
        ('root ::= "a"{2,4} "!"', r"a{2,4}!"),
        ('root ::= item ("," item)*\nitem ::= [a-c]+', r"[a-c]+(,[a-c]+)*"),
        ('root ::= (" "? [A-Z]){1,5}', r"( ?[A-Z]){1,5}"),
        ('# a comment\nroot ::= "é" | # another\n "ü"', "é|ü"),
        ('root ::= ("a"*)* "b"', r"a*b"),
        ("root ::= <[97]> !<[98]>", r"a(?s:.*)"),
    ],
)
def test_every_finished_text_matches(context, grammar, pattern):
    finished = 0
    for seed in range(12):
        text, ended = written(context, grammar, seed=seed)
        finished += ended
        assert not ended or re.fullmatch(pattern, text.decode()), text
    assert finished or "*" in grammar


def test_a_complete_grammar_allows_only_the_end(context):
    for seed in range(8):
        assert written(context, 'root ::= "ok"', seed=seed) == (b"ok", True)


def test_the_first_draw_stands_where_the_grammar_allows_it(context):
    """A grammar that allows everything changes no draw: nothing is drawn twice."""
    plain = context.open_sampler(SamplingSettings(temperature=1.0, seed=4, logit_bias={0: float("-inf")}))
    free = SamplingSettings(
        temperature=1.0, seed=4, logit_bias={0: float("-inf")}, grammar="root ::= [\\x01-\\U0010FFFF]*"
    )
    ruled = context.open_sampler(free)
    for sampler in (plain, ruled):
        sampler.begin([])
    drawn = [plain.sample(row) for row in range(24)]
    assert all(context.model.vocabulary.token_bytes(token).isascii() for token in drawn[:3])
    assert [ruled.sample(row) for row in range(3)] == drawn[:3]


def test_beginning_forgets_half_a_character(context):
    half = next(token for token in range(512) if context.model.vocabulary.token_bytes(token) == b"\xc3")
    sampler = context.open_sampler(SamplingSettings(grammar='root ::= "é"', logit_bias={half: 100.0}))
    for _ in range(2):
        sampler.begin([])
        assert sampler.sample(0) == half


def test_the_prompt_is_not_judged(context):
    sampler = context.open_sampler(SamplingSettings(grammar='root ::= "7"'))
    sampler.begin([97, 98, 99])
    assert sampler.sample(0) == ord("7")


def test_a_grammar_and_biases_that_allow_nothing_together(context):
    sampler = context.open_sampler(SamplingSettings(grammar='root ::= "7"', logit_bias={ord("7"): float("-inf")}))
    sampler.begin([])
    with pytest.raises(NativeCallError, match="allow no token"):
        sampler.sample(0)
    with pytest.raises(NativeCallError, match="allow no token"):
        sampler.sample(0)


def test_a_text_with_too_many_readings_is_an_error_and_the_state_stands(context):
    grammar = 'root ::= s\ns ::= "a" s "b" | "a" s "c" | "x"'
    sampler = context.open_sampler(SamplingSettings(grammar=grammar, logit_bias={ord("x"): float("-inf")}))
    sampler.begin([])
    for _ in range(2):
        with pytest.raises(NativeCallError, match="ways"):
            sample_many(sampler, 40)


def test_many_readings_of_one_text_are_followed_once(context):
    """The library alone takes minutes a token."""
    rules = ("([0-9A-F]{2} a) b [a-z] | a .", "[^a] ((a{0,2}) | [b]{1,3} a? [^a]+)", "[0-9A-F]+ a{0,2} .{2}")
    grammar = "\n".join(f"{name} ::= {rule}" for name, rule in zip(("root", "a", "b"), rules, strict=True))
    for seed in range(8):
        assert written(context, grammar, seed=seed, most_tokens=12)[0]


def sample_many(sampler, count):
    for _ in range(count):
        sampler.sample(0)


@pytest.mark.parametrize(
    ("grammar", "problem"),
    [
        ("root :: = x", "line 1, column 6: expecting ::="),
        ('root ::= "a', "in the rule at line 1, column 1: unexpected end of input"),
        ('root ::= "a"\n\nb ::= [a-', "in the rule at line 3, column 1: unexpected end of input"),
        ('root ::= ("a"', "line 1, column 14: expecting ')'"),
        ("root ::= *", "expecting preceding item"),
        ('root ::= "\\q"', "line 1, column 11: unknown escape"),
        ('root ::= "\\x4g"', "expecting 2 hex chars"),
        ("root ::= a\n  ?? b", "line"),
        ('x ::= "a"', "no rule `root`"),
        ("   # only a comment", "no rule `root`"),
        ("root ::= a b", "rule `a` is used and not defined"),
        ('root ::= "a"\nroot ::= "b"', "line 2, column 1: rule `root` is defined twice"),
        ('root ::= root "a" | "b"', "rule `root` may begin with itself"),
        ('root ::= a\na ::= b "x" | "y"\nb ::= a | "z"', "may begin with itself"),
        ('root ::= r\nr ::= s r "b" | "c"\ns ::= t\nt ::= "a" t |', "rule `r` may begin with itself"),
        ('root ::= "a"{5,3}', "repetitions from 5 to 3"),
        ('root ::= "a"{0,18446744073709551615}', "more than 2000 repetitions"),
        ('root ::= "a"{3000}', "more than 2000 repetitions"),
        ('root ::= "a"{99999999999999999999999}', "more than 2000 repetitions"),
        ('root ::= "a"{2000}{2000}', "elements once repetitions are written out"),
        (f'root ::= "{"a" * 2000}"{{2000}}', "elements once repetitions are written out"),
        ("root ::= " + "(" * 100_000, "more than 200 nested parentheses"),
        ("root ::= <[512]>", "token <[512]> is not in 0..511"),
        ("root ::= <[99999999999]>", "line 1, column 12: parsed token id is too big"),
        ("root ::= <no such token>", "invalid token"),
        (f"root ::= <{'a' * 300}>", "a token of 302 bytes"),
        ("root ::= a0\n" + "".join(f"a{i} ::= a{i + 1}\n" for i in range(6000)) + 'a6000 ::= "x"', "nested too deeply"),
        (
            "root ::= a0\n" + "".join(f'a{i} ::= a{i + 1} "x" | a{i + 1} "y"\n' for i in range(40)) + 'a40 ::= "z"',
            "too many readings",
        ),
    ],
    ids=lambda value: value[:24].replace("\n", " ") if isinstance(value, str) else None,
)
def test_a_bad_grammar_is_refused_with_its_place(context, grammar, problem):
    with pytest.raises(ConfigError, match=re.escape(problem)) as caught:
        context.open_sampler(SamplingSettings(grammar=grammar))
    assert caught.value.field == "grammar"
    assert caught.value.hint


def test_a_grammar_comes_from_a_file(context, tmp_path):
    path = tmp_path / "answer.gbnf"
    path.write_text('root ::= "4" "2"')
    sampler = context.open_sampler(SamplingSettings(grammar_file=path))
    sampler.begin([])
    assert [sampler.sample(row) for row in range(2)] == [ord("4"), ord("2")]
    path.write_text("root ::= (")
    with pytest.raises(ConfigError, match=re.escape(str(path))) as caught:
        context.open_sampler(SamplingSettings(grammar_file=path))
    assert caught.value.field == "grammar_file"


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "cannot be read"), (b" \n", "is empty"), (b"\xff", "not UTF-8"), (b"x" * 1_048_577, "bytes")],
)
def test_a_grammar_file_that_cannot_be_used(context, tmp_path, content, problem):
    path = tmp_path / "answer.gbnf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=problem) as caught:
        context.open_sampler(SamplingSettings(grammar_file=path))
    assert caught.value.field == "grammar_file"
