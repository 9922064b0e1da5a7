"""Tiny models for a run: built once in a temporary folder, loaded once, closed at its end."""

from __future__ import annotations

import atexit
import tempfile
from functools import cache
from pathlib import Path
from typing import get_args

from power_contract.loading import subject_plugins
from power_contract.oracle import Oracle
from power_contract.subject import ContractSubject
from power_core.artifacts import GgufHeader, scan_header
from power_core.target import ContextSettings, ModelSettings, TargetModel
from power_core.testing import build_tiny_target
from power_core.testing.fakes import FakeModel
from power_core.testing.tiny_weights import TargetKind

FAKE = "fake"
"""A target without weights whose memory has a rollback window; for subjects that need neither a backend nor weights."""

FAKE_VOCABULARY_TOKENS = 13
"""So few that what is decoded repeats itself, and a drafter that looks things up drafts."""

_FAKE_HEADER_KIND: TargetKind = "attention"


def target_kinds(subject: ContractSubject) -> tuple[str, ...]:
    """Return the target kinds that a subject's histories run on."""
    fakes = (FAKE,) if subject.features.isdisjoint({"native", "model-backed"}) else ()
    return (*subject.target_kinds, *fakes)


class Materials:
    """Files, loaded models and oracles by what they were asked for with."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="power-contract-")
        self._paths: dict[tuple[str, ...], Path] = {}
        self._headers: dict[Path, GgufHeader] = {}
        self._models: dict[tuple[str, bool], TargetModel] = {}
        self._oracles: dict[tuple[str, bool, ContextSettings], Oracle] = {}

    def target(self, kind: str) -> Path:
        """Return a tiny target of that kind."""
        built = _FAKE_HEADER_KIND if kind == FAKE else kind
        key = ("target", built)
        if key not in self._paths:
            assert built in get_args(TargetKind)
            self._paths[key] = build_tiny_target(self._path(f"target-{built}.gguf"), kind=built)  # type: ignore[arg-type]
        return self._paths[key]

    def draft(self, subject: ContractSubject, kind: str) -> Path | None:
        """Return the subject's draft for a target of that kind; None when it uses none."""
        if subject.build_draft is None:
            return None
        key = ("draft", subject.name, repr(subject.build_draft), kind)
        if key not in self._paths:
            folder = self._path(f"draft-{len(self._paths)}")
            folder.mkdir()
            self._paths[key] = subject.build_draft(folder, kind)  # type: ignore[arg-type]
        return self._paths[key]

    def target_header(self, kind: str) -> GgufHeader:
        """Return the header of a target."""
        return self._header(self.target(kind))

    def draft_header(self, subject: ContractSubject, kind: str) -> GgufHeader | None:
        """Return the header of the subject's draft for a target of that kind; None when it uses none."""
        draft = self.draft(subject, kind)
        return None if draft is None else self._header(draft)

    def model(self, subject: ContractSubject, kind: str, *, load_nextn: bool) -> TargetModel:
        """Return a loaded target; it stays open."""
        key = (kind, load_nextn)
        if key not in self._models:
            self._models[key] = self._open_model(subject, kind, load_nextn)
        return self._models[key]

    def oracle(self, model: TargetModel, kind: str, load_nextn: bool, settings: ContextSettings) -> Oracle:
        """Return an oracle on a context of its own, opened with these settings."""
        key = (kind, load_nextn, settings)
        if key not in self._oracles:
            self._oracles[key] = Oracle(model.open_context(settings), model.info.n_vocab)
        return self._oracles[key]

    def close(self) -> None:
        """Close what is open and delete the folder; safe to call twice."""
        for oracle in self._oracles.values():
            oracle.close()
        for model in self._models.values():
            model.close()
        self._oracles.clear()
        self._models.clear()
        self._folder.cleanup()

    def _header(self, path: Path) -> GgufHeader:
        if path not in self._headers:
            self._headers[path] = scan_header(path)
        return self._headers[path]

    def _path(self, name: str) -> Path:
        return Path(self._folder.name) / name

    def _open_model(self, subject: ContractSubject, kind: str, load_nextn: bool) -> TargetModel:
        if kind == FAKE:
            return FakeModel(n_vocab=FAKE_VOCABULARY_TOKENS, recurrent=True)
        backend = subject_plugins(subject).backend()
        return backend.open_model(ModelSettings(path=self.target(kind), load_nextn=load_nextn), None)


@cache
def materials() -> Materials:
    """Return the materials of this process."""
    made = Materials()
    atexit.register(made.close)
    return made


def headers(subject: ContractSubject, target_kind: str) -> tuple[GgufHeader, GgufHeader | None]:
    """Return the headers of a subject's target and draft."""
    return materials().target_header(target_kind), materials().draft_header(subject, target_kind)


def close_models() -> None:
    """Close every model of this process; called at the end of a run."""
    materials().close()
    materials.cache_clear()
