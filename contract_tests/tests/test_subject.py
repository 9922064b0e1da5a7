"""What a subject may say, and how it is found."""

import attrs
import pytest

import power_contract.subject
from power_contract.subject import ContractSubject, find_subject
from power_core.errors import ConfigError

SUBJECT = ContractSubject(
    name="power-example",
    strategy="example",
    plugin="power_example.plugin",
    features=frozenset({"mutable-memory"}),
    target_kinds=("attention",),
)
OURS = ("power-mtp", "power-dflash", "power-dflash2", "power-dspark", "power-ngram")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"features": frozenset({"fast"})}, "features"),
        ({"target_kinds": ()}, "target_kinds"),
        ({"target_kinds": ("moe",)}, "target_kinds"),
        ({"draft_max": 2}, "draft_max"),
        ({"build_draft": lambda folder, kind: folder}, "build_draft"),
        ({"features": frozenset({"draft-file"})}, "build_draft"),
        ({"features": frozenset({"known-drafts"})}, "known_drafts"),
    ],
)
def test_what_a_subject_may_not_say(change, field):
    with pytest.raises(ConfigError) as caught:
        attrs.evolve(SUBJECT, **change)
    assert caught.value.field == field


@pytest.mark.parametrize("name", OURS)
def test_our_plugins_are_found_by_their_names(name):
    assert find_subject(name).name == name


def test_a_subject_or_what_makes_it_is_found_by_module(monkeypatch):
    monkeypatch.setattr(power_contract.subject, "EXAMPLE", SUBJECT, raising=False)
    monkeypatch.setattr(power_contract.subject, "make_example", lambda: SUBJECT, raising=False)
    assert find_subject("power_contract.subject:EXAMPLE") is SUBJECT
    assert find_subject("power_contract.subject:make_example") is SUBJECT
