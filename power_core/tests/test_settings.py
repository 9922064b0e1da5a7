"""Settings: every range, its message, and the contradictions."""

from __future__ import annotations

import math
from pathlib import Path

import attrs
import pytest

from power_core.errors import ConfigError
from power_core.sampler import SamplingSettings
from power_core.settings import RequestSettings, SessionSettings

BAD_SESSION = [
    ("draft_max", 0),
    ("draft_max", 65),
    ("draft_max", -1),
    ("draft_max", True),
    ("draft_max", 3.5),
    ("draft_min", -1),
    ("draft_min", 65),
    ("draft_p_min", math.nan),
    ("draft_p_min", math.inf),
    ("draft_p_min", 1.5),
    ("draft_p_min", -0.1),
    ("snapshots", 0),
    ("snapshots", 65),
    ("verify_rows", 0),
    ("verify_rows", -3),
    ("verify_rows", "some"),
    ("ctx", 0),
    ("ctx", -5),
    ("batch", 0),
    ("ubatch", 0),
    ("threads", -1),
    ("gpu_layers", -2),
    ("mtp_fr_vocab_size", 0),
    ("mtp_fr_map", "map.gguf"),
    ("mtp_fr_vocab_size", 1_048_577),
    ("spec", None),
    ("model", "a path as text"),
    ("draft_p_min", "x"),
    ("scheduler", "magic"),
    ("arithmetic", "approximate"),
    ("flash_attention", "maybe"),
]


@pytest.mark.parametrize(("field", "value"), BAD_SESSION)
def test_a_bad_session_setting_names_field_and_value(field, value):
    with pytest.raises(ConfigError) as caught:
        SessionSettings(**{field: value})
    assert caught.value.field == field
    assert f"`{field}` is {value!r}, expected" in str(caught.value)


def test_draft_min_may_not_exceed_draft_max():
    with pytest.raises(ConfigError, match="draft_min"):
        SessionSettings(draft_max=3, draft_min=4)


def test_exact_arithmetic_refuses_flash_attention_off():
    with pytest.raises(ConfigError) as caught:
        SessionSettings(flash_attention="off")
    assert "fast" in caught.value.hint
    assert SessionSettings(flash_attention="off", arithmetic="fast").arithmetic == "fast"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", -1),
        ("max_tokens", 1.5),
        ("stop", ("",)),
        ("stop", (5,)),
        ("stop", ("\ud800",)),
        ("stop_tokens", (-1,)),
        ("stop_tokens", ("5",)),
        ("stop_tokens", (True,)),
        ("logprobs", -1),
        ("logprobs", 21),
        ("logprobs", True),
    ],
)
def test_a_bad_request_setting_is_refused(field, value):
    with pytest.raises(ConfigError, match=field):
        RequestSettings(**{field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -1.0),
        ("temperature", math.nan),
        ("temperature", None),
        ("temperature", "1"),
        ("top_k", 1.5),
        ("seed", True),
        ("top_p", 1.1),
        ("min_p", -0.1),
        ("top_k", -1),
        ("seed", -1),
        ("temperature", 1e-21),
        ("dry_multiplier", -0.1),
        ("dry_base", 0.9),
        ("dry_allowed_length", -1),
        ("dry_penalty_last_n", -2),
        ("dry_sequence_breakers", ("",)),
        ("dry_sequence_breakers", ("x" * 41,)),
        ("dry_sequence_breakers", ("a\0b",)),
        ("dry_sequence_breakers", ("a",) * 65),
        ("dry_sequence_breakers", "ab"),
        ("xtc_probability", 1.1),
        ("xtc_threshold", math.nan),
        ("logit_bias", {5: math.nan}),
        ("logit_bias", {5: math.inf}),
        ("logit_bias", {5: -(10**400)}),
        ("logit_bias", {-1: 0.0}),
        ("logit_bias", {True: 0.0}),
        ("logit_bias", {"5": 0.0}),
        ("logit_bias", ((5, 1.0), (5, 2.0))),
        ("logit_bias", "5=1"),
        ("logit_bias", (5, 1.0)),
        ("grammar", "root ::= \0"),
        ("grammar", "\ud800"),
        ("grammar", None),
        ("grammar_file", "a.gbnf"),
    ],
)
def test_a_bad_sampling_setting_is_refused(field, value):
    with pytest.raises(ConfigError, match=field):
        SamplingSettings(**{field: value})


@pytest.mark.parametrize("temperature", [0, 0.0])
def test_temperature_zero_is_greedy(temperature):
    assert SamplingSettings(temperature=temperature).greedy


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 1e-9},
        {"repeat_penalty": 1.1},
        {"presence_penalty": 0.1},
        {"frequency_penalty": 0.1},
        {"typical_p": 0.9},
        {"dry_multiplier": 0.1},
        {"xtc_probability": 0.1},
        {"logit_bias": {5: 1.0}},
        {"grammar": 'root ::= "a"'},
        {"grammar_file": Path("a.gbnf")},
    ],
)
def test_anything_stateful_is_not_greedy(change):
    assert not SamplingSettings(**change).greedy


def test_biases_are_pairs_sorted_by_token_however_they_are_given():
    expected = ((1, 2.0), (5, -1.0))
    for biases in ({5: -1.0, 1: 2.0}, [(5, -1.0), [1, 2.0]], expected):
        settings = SamplingSettings(logit_bias=biases)
        assert settings.logit_bias == expected
        assert settings == SamplingSettings(logit_bias=expected)
    assert SamplingSettings().logit_bias == ()


def test_settings_with_another_seed_keep_their_biases_unchecked(monkeypatch):
    settings = SamplingSettings(logit_bias={5: 1.0})
    monkeypatch.setattr("power_core.sampler._is_bias", lambda pair: pytest.fail("checked again"))
    assert attrs.evolve(settings, seed=3).logit_bias is settings.logit_bias
