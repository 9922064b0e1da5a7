"""Plans: order, variants, prompts, gates; what is refused before anything is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_fakes import MTP, OFF, PROMPTS, fake_plan
from hypothesis import given
from hypothesis import strategies as st

from power_core.bench.plan import FEWEST_PAIRS, Gates, Prompt, make_variants, running_order
from power_core.bench.prompts import read_prompts
from power_core.bench.synthetic import AcceptanceProfile
from power_core.errors import ConfigError, PromptError
from power_core.plugins.loading import LoadedPlugin
from power_core.plugins.manager import PowerPluginManager
from power_core.plugins.types import StrategySpec, TargetNeeds
from power_core.sampler import SamplingSettings
from power_core.settings import RequestSettings, SessionSettings


def spec(name: str, **changes: object) -> StrategySpec:
    values = {
        "name": name,
        "refuse": lambda target, draft: None,
        "needs": lambda target, draft: TargetNeeds(),
        "create_drafter": lambda context: None,
    }
    return StrategySpec(**(values | changes))


PLUGINS = PowerPluginManager(
    [
        LoadedPlugin(
            name="x",
            distribution="power-x",
            version="1",
            status="loaded",
            strategy_specs=(
                spec("mtp"),
                spec("prompt-lookup"),
                spec("dflash", uses_draft_file=True),
                spec("dspark", uses_draft_file=True),
            ),
        )
    ]
)


# -------------------------------------------------------------------------------------------------------------- order


@given(st.integers(1, 7))
def test_every_variant_runs_once_a_turn_and_alternates_with_every_other(n_variants: int):
    names = [str(index) for index in range(n_variants)]
    turns = [running_order(names, turn) for turn in range(2 * n_variants)]
    assert all(sorted(turn) == names for turn in turns)
    assert turns[0] == names
    for name in names:
        assert [turn.index(name) for turn in turns].count(0) == 2
        for other in names:
            if other != name:
                assert sum(turn.index(name) < turn.index(other) for turn in turns) == n_variants


@given(st.integers(1, 5), st.integers(0, 50))
def test_the_order_repeats_after_two_rounds_of_places(n_variants: int, turn: int):
    names = [str(index) for index in range(n_variants)]
    assert running_order(names, turn) == running_order(names, turn + 2 * n_variants)


# ----------------------------------------------------------------------------------------------------------- variants


def test_variants_are_every_strategy_with_every_width_and_scheduler():
    base = SessionSettings(threads=3, draft_min=0, mtp_fr_vocab_size=None)
    found = make_variants(base, PLUGINS, specs=["mtp", "lookup"], draft_maxes=[1, 3])
    assert [variant.name for variant in found] == [
        "off",
        "mtp K=1",
        "mtp K=3",
        "prompt-lookup K=1",
        "prompt-lookup K=3",
    ]
    assert all(variant.settings.threads == 3 for variant in found)
    both = make_variants(base, PLUGINS, specs=["off", "mtp"], schedulers=["fixed", "goodput"])
    assert [variant.name for variant in both] == ["off", "mtp", "mtp goodput"]
    assert [variant.settings.scheduler for variant in both] == ["fixed", "fixed", "goodput"]


def test_plain_decoding_loses_what_belongs_to_drafting():
    base = SessionSettings(
        draft=Path("d.gguf"), draft_max=4, draft_min=2, draft_p_min=0.5, scheduler="goodput", mtp_fr_vocab_size=2048
    )
    plain = make_variants(base, PLUGINS, specs=["mtp"])[0].settings
    assert plain == SessionSettings(spec="off")


def test_a_draft_goes_to_the_strategies_that_read_one():
    base = SessionSettings(draft=Path("all.gguf"))
    drafts = {"dspark": Path("own.gguf")}
    found = make_variants(base, PLUGINS, specs=["mtp", "dflash", "dspark"], drafts=drafts)
    assert [variant.settings.draft for variant in found] == [None, None, Path("all.gguf"), Path("own.gguf")]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"specs": ["auto"]}, "spec"),
        ({"specs": ["nonsense"]}, "spec"),
        ({"specs": ["mtp"], "drafts": {"dspark": Path("d")}}, "draft"),
        ({"specs": ["mtp"], "drafts": {"mtp": Path("d")}}, "draft"),
        ({"specs": ["mtp"], "draft_maxes": [0]}, "draft_max"),
        ({"specs": ["mtp"], "schedulers": ["best"]}, "scheduler"),
    ],
)
def test_variants_that_cannot_be_are_refused(arguments: dict[str, object], field: str):
    with pytest.raises(ConfigError) as caught:
        make_variants(SessionSettings(), PLUGINS, **arguments)
    assert caught.value.field == field


# --------------------------------------------------------------------------------------------------------------- plan


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"variants": ()}, "spec"),
        ({"variants": (MTP,)}, "spec"),
        ({"variants": (OFF, MTP, MTP)}, "spec"),
        ({"prompts": ()}, "prompts"),
        ({"prompts": (PROMPTS[0], PROMPTS[0])}, "prompts"),
        ({"request": RequestSettings(max_tokens=1)}, "max_tokens"),
        ({"request": RequestSettings(max_tokens=65_537)}, "max_tokens"),
        ({"request": RequestSettings(stop=("x",))}, "stop"),
        ({"request": RequestSettings(stop_tokens=(3,))}, "stop_tokens"),
        ({"repeats": 0}, "repeats"),
        ({"repeats": 101}, "repeats"),
        ({"warmups": -1}, "warmups"),
        ({"warmups": 11}, "warmups"),
        ({"sessions": "sometimes"}, "sessions"),
        ({"gates": Gates(ratio=1.0), "repeats": 2}, "gate_ratio"),
        ({"variants": (OFF,), "profile": AcceptanceProfile(probabilities=(0.5,))}, "synthetic_acceptance"),
    ],
)
def test_plans_that_prove_nothing_are_refused(changes: dict[str, object], field: str):
    with pytest.raises(ConfigError) as caught:
        fake_plan(**changes)
    assert caught.value.field == field


def test_a_plan_knows_its_pairs_and_its_plain_variant():
    plan = fake_plan(gates=Gates(ratio=1.0), repeats=3)
    assert plan.pairs == 6 >= FEWEST_PAIRS
    assert plan.plain is OFF
    assert fake_plan(request=RequestSettings(sampling=SamplingSettings(temperature=0.8))).request.max_tokens == 512


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_gates_ask_for_something_that_can_be_reached(value: float):
    for field in ("rate", "each_rate", "ratio", "each_ratio"):
        with pytest.raises(ConfigError):
            Gates(**{field: value})


# ------------------------------------------------------------------------------------------------------------ prompts


def test_prompt_sets_have_texts_or_objects(tmp_path: Path):
    file = tmp_path / "prompts.json"
    file.write_text('["one", {"text": "two"}, {"name": "c", "text": "three"}, {"file": "d.py", "text": "four"}]')
    assert read_prompts(file) == (
        Prompt(name="prompt 1", text="one"),
        Prompt(name="prompt 2", text="two"),
        Prompt(name="c", text="three"),
        Prompt(name="d.py", text="four"),
    )


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", "[1]", '[{"name": "a"}]', '[{"text": 1}]', '[{"text": "a", "weight": 1}]', "[" * 5000]
)
def test_other_files_are_no_prompt_sets(tmp_path: Path, content: str):
    file = tmp_path / "prompts.json"
    file.write_text(content)
    with pytest.raises(PromptError):
        read_prompts(file)


def test_prompts_that_cannot_be_used_are_refused(tmp_path: Path):
    with pytest.raises(PromptError):
        read_prompts(tmp_path / "absent.json")
    with pytest.raises(ConfigError):
        Prompt(name="empty", text="")
    with pytest.raises(ConfigError):
        Prompt(name="long", text="x" * 1_048_577)
