"""Targets and block drafts for the suites of the block drafters, built once a session; fixtures for the plugins' tests.

A plugin's ``conftest.py`` defines the fixture ``kind`` and imports the others from here.
"""

from types import ModuleType

import attrs
import pytest
from draft_forms import BLOCK_SIZE_ROWS, FORMS, most_drafts
from drafter_bench import DrafterBench

from power_core.plugins import StrategySpec
from power_core.target import ModelSettings
from power_core.testing.drafts import build_tiny_draft
from power_core.testing.models import build_tiny_target
from power_native import NativeModel

pytest.register_assert_rewrite(
    "block_graph_suite",
    "block_opening_suite",
    "block_plugin_suite",
    "block_session_suite",
    "fault_runs",
    "sequences_suite",
)

TARGETS = ("hybrid", "attention")
NOT_ADMITTED = "layers-in-another-order"  # the library runs it, the validators refuse it
FORM_NAMES = [
    name.removeprefix("dflash-") for name in FORMS if name.startswith("dflash-") and not name.endswith(NOT_ADMITTED)
]


@attrs.frozen(kw_only=True)
class BlockKind:
    """One plugin: the name of its strategy, and its registration module."""

    name: str
    plugin: ModuleType

    @property
    def spec(self) -> StrategySpec:
        (spec,) = self.plugin.power_strategies()
        return spec

    @property
    def most_drafts(self) -> int:
        """Of its plain form."""
        return most_drafts({"kind": self.name})

    def form(self, name: str) -> dict[str, object]:
        """Arguments of ``BlockFiles.draft`` for a form by its name in ``draft_forms``, without the kind before it."""
        return FORMS[f"{self.name}-{name}"]


class BlockFiles:
    """Builds each file at its first use, and opens each target once."""

    def __init__(self, folder):
        self._folder = folder
        self._paths = {}
        self._models = {}

    def target(self, target="hybrid"):
        return self._built(("target", target), lambda path: build_tiny_target(path, kind=target, seed=5))

    def model(self, target="hybrid"):
        if target not in self._models:
            self._models[target] = NativeModel.open(ModelSettings(path=self.target(target)))
        return self._models[target]

    def draft(self, kind, target="hybrid", **form):
        form = {"block_size_rows": BLOCK_SIZE_ROWS, **form, "kind": kind}
        key = ("draft", target, repr(sorted(form.items())))
        return self._built(key, lambda path: build_tiny_draft(path, target=target, **form))

    def close(self):
        for model in self._models.values():
            model.close()

    def _built(self, key, build):
        if key not in self._paths:
            self._paths[key] = build(self._folder / f"{len(self._paths)}-{key[0]}.gguf")
        return self._paths[key]


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    files = BlockFiles(tmp_path_factory.mktemp("block-drafts"))
    yield files
    files.close()


@pytest.fixture
def bench(files, kind):
    """Return a function that opens a bench for a target kind and a form of the draft; all are closed after the test."""
    opened = []

    def open_one(target="hybrid", form="plain", **settings):
        draft = files.draft(target=target, **kind.form(form))
        opened.append(DrafterBench(files.model(target), kind.spec, draft, **settings))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()
