"""What runs without a model: an installed package's models, else the random-weight target; never a guess."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_core import default_models
from power_core.default_models import with_default_models
from power_core.errors import ConfigError, PluginLoadError
from power_core.settings import SessionSettings

ZOO = Path("zoo")
KINDS = ("dspark", "dflash2", "dflash")


class Plugins:
    """The parts of a plugin manager that are asked: which kinds can be read, what a strategy reads."""

    def __init__(self, *readable: str) -> None:
        self._readable = readable

    def validators(self):
        return [SimpleNamespace(kind=kind) for kind in self._readable]

    def draft_kind(self, requested):
        return requested if requested in ("auto", *KINDS) else None


def package(*auto: str) -> SimpleNamespace:
    return SimpleNamespace(
        AUTO_DRAFTS=auto,
        target_path=lambda: ZOO / "target.gguf",
        draft_path=lambda kind: ZOO / f"{kind}.gguf" if kind in KINDS else None,
    )


def install(monkeypatch: pytest.MonkeyPatch, **modules: object) -> None:
    points = tuple(EntryPoint(name=name, value=name, group=default_models.GROUP) for name in modules)
    monkeypatch.setattr(default_models, "entry_points", lambda group: points if group == default_models.GROUP else ())
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)


def chosen(settings: SessionSettings, *readable: str):
    events: list[dict[str, object]] = []
    return with_default_models(settings, Plugins(*readable), events), events


def test_without_a_package_the_random_target_runs_and_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("POWER_CACHE_DIR", str(tmp_path))
    install(monkeypatch)
    settings, events = chosen(SessionSettings(spec="mtp"))
    assert settings.model.is_file()
    assert settings.draft is None
    assert [event["event"] for event in events] == ["default_target"]
    assert "random weights" in str(events[0]["detail"])


@pytest.mark.parametrize("spec", ["off", "mtp", "prompt-lookup"])
def test_a_package_gives_the_target_and_no_draft_to_strategies_that_read_none(monkeypatch, spec):
    install(monkeypatch, models_zoo=package(*KINDS))
    settings, events = chosen(SessionSettings(spec=spec), *KINDS)
    assert (settings.model, settings.draft) == (ZOO / "target.gguf", None)
    assert "models_zoo" in str(events[0]["detail"])


@pytest.mark.parametrize("spec", KINDS)
def test_a_strategy_gets_the_draft_of_its_kind_unless_one_is_named(monkeypatch, spec):
    install(monkeypatch, models_zoo=package(*KINDS))
    assert chosen(SessionSettings(spec=spec))[0].draft == ZOO / f"{spec}.gguf"
    own = Path("own.gguf")
    assert chosen(SessionSettings(spec=spec, draft=own))[0].draft == own


@given(auto=st.permutations(KINDS), readable=st.sets(st.sampled_from(KINDS)))
def test_auto_takes_the_first_draft_that_an_installed_plugin_reads(auto, readable):
    with pytest.MonkeyPatch.context() as monkeypatch:
        install(monkeypatch, models_zoo=package(*auto))
        draft = chosen(SessionSettings(), *readable)[0].draft
    expected = [ZOO / f"{kind}.gguf" for kind in auto if kind in readable]
    assert draft == (expected[0] if expected else None)


def test_two_packages_are_refused_by_name(monkeypatch):
    install(monkeypatch, models_b=package(), models_a=package())
    with pytest.raises(ConfigError, match=r"2 installed packages .* models_a, models_b"):
        chosen(SessionSettings())


def test_a_package_that_cannot_be_imported_is_named(monkeypatch):
    install(monkeypatch, models_zoo=None)
    with pytest.raises(PluginLoadError, match="models of models_zoo cannot be found"):
        chosen(SessionSettings())
