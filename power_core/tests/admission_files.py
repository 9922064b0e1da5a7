"""A target and a draft of a few hundred bytes, plugins that read them, and sessions on them without any weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from power_core.admission import AdmitResult, Provenance, admit_draft, manifest_path
from power_core.admission.manifest import digest_of
from power_core.artifacts import CheckList, GgufHeader, ValidationReport, ValueType
from power_core.opening import open_session
from power_core.plugins.loading import LoadedPlugin
from power_core.plugins.manager import PowerPluginManager
from power_core.plugins.types import BackendSpec, DrafterContext, LoadProgress, StrategySpec, TargetNeeds
from power_core.session import Session
from power_core.target import ModelSettings
from power_core.testing import GgufBytes
from power_core.testing.fakes import FakeModel, ScriptedDrafter
from power_core.testing.headers import minimal_target

KINDS = ("dflash", "dspark")
PROVENANCE = Provenance(source="https://example.org/draft", revision="4f2a1c", license="Apache-2.0")
TOKENIZER_PAIRS = 6


@attrs.frozen
class FakeDraftValidator:
    """Claims the files whose ``fake.kind`` is its own kind; a draft with another ``fake.width`` fits no target."""

    kind: str
    describe: str = "A draft for tests."

    def matches(self, header: GgufHeader) -> bool:
        return header.get("fake.kind") == self.kind

    def validate(self, header: GgufHeader) -> ValidationReport:
        checks = CheckList(self.kind)
        checks.add("width", header.get("fake.width") is not None, "'fake.width' has to be there", expected="a number")
        return checks.report(self.kind, header.path)

    def validate_pair(self, target: GgufHeader, draft: GgufHeader) -> ValidationReport:
        checks = CheckList("pair")
        wanted, found = target.get("qwen3.embedding_length"), draft.get("fake.width")
        checks.add("width", wanted == found, f"the draft is {found} wide, the target {wanted}", expected=wanted)
        return checks.report(self.kind, draft.path)


VALIDATORS = tuple(FakeDraftValidator(kind) for kind in KINDS)


def target_bytes(*, mark: int = 0, nextn: bool = False, padding: int = 0) -> bytes:
    """A target that passes every check; ``mark`` is its last byte, in a tensor, and changes nothing else."""
    header = minimal_target()
    if nextn:
        header = header.with_value("fake.nextn", ValueType.BOOL, True)
    data = header.with_value("general.name", ValueType.STRING, "T" * (4 + padding)).build()
    return data[:-1] + bytes([mark])


def draft_bytes(*, kind: str = "dflash", mark: int = 0, width: int | None = 32, name: str = "draft") -> bytes:
    """A draft with the tokenizer of ``target_bytes``."""
    header = GgufBytes().with_value("general.architecture", ValueType.STRING, "dflash")
    header = header.with_value("general.name", ValueType.STRING, name).with_value("fake.kind", ValueType.STRING, kind)
    if width is not None:
        header = header.with_value("fake.width", ValueType.UINT32, width)
    header = attrs.evolve(header, pairs=header.pairs + minimal_target().pairs[-TOKENIZER_PAIRS - 1 :])
    return header.with_tensor("fc.weight", (32, 4)).build()[:-1] + bytes([mark])


@attrs.frozen
class Pair:
    """Two files in one folder."""

    target: Path
    draft: Path

    @property
    def manifest(self) -> Path:
        return manifest_path(self.draft)

    def admit(self, provenance: Provenance = PROVENANCE, **options: Any) -> AdmitResult:
        return admit_draft(self.target, self.draft, provenance, VALIDATORS, **options)

    def edit(self, change: Callable[[dict[str, Any]], object], *, sign: bool = False) -> None:
        """Change the manifest's values in place; ``sign`` computes its digest anew, as an attacker would."""
        values = json.loads(self.manifest.read_text())
        change(values)
        if sign:
            values["digest"] = digest_of(values)
        self.manifest.write_text(json.dumps(values))

    def open(self, backend: FakeBackend | None = None, **settings: Any) -> Session:
        """Open a session that is given the draft."""
        return self.open_without(backend, draft=self.draft, **settings)

    def open_without(self, backend: FakeBackend | None = None, **settings: Any) -> Session:
        """Open a session that has to find the draft itself."""
        plugins = (backend or FakeBackend()).plugins()
        return open_session(plugins=plugins, **{"model": self.target, "ctx": 256, **settings})


def write_pair(folder: Path, name: str = "", *, kind: str = "dflash", mark: int = 0, nextn: bool = False) -> Pair:
    """Write ``target<name>.gguf`` and ``draft<name>.gguf``; pairs of other marks have other bytes, of equal sizes."""
    pair = Pair(folder / f"target{name}.gguf", folder / f"draft{name}.gguf")
    pair.target.write_bytes(target_bytes(mark=mark, nextn=nextn))
    pair.draft.write_bytes(draft_bytes(kind=kind, mark=mark))
    return pair


def admitted_pair(folder: Path, name: str = "", **options: Any) -> Pair:
    """Write a pair and admit it."""
    pair = write_pair(folder, name, **options)
    pair.admit()
    return pair


def flip(path: Path, offset: int) -> None:
    """Change one bit of one byte."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def offset_of(path: Path, text: bytes) -> int:
    """Return where some bytes stand in a file."""
    return path.read_bytes().index(text)


class FakeBackend:
    """Opens fake models, remembers how, and drafts nothing.

    ``kinds`` are the strategies that read a draft; they ask for the target's prediction heads too when ``greedy``.
    ``changes`` are fields of their specs.
    """

    def __init__(self, *, kinds: tuple[str, ...] = KINDS, greedy: bool = False, **changes: Any) -> None:
        self.kinds = kinds
        self.changes = changes
        self.greedy = greedy
        self.models: list[ModelSettings] = []
        self.drafters: list[DrafterContext] = []
        self.opened: list[FakeModel] = []
        self.built: list[ScriptedDrafter] = []
        self.while_loading: Callable[[], object] = lambda: None

    def plugins(self) -> PowerPluginManager:
        specs = (*(self._strategy(kind) for kind in self.kinds), self._mtp())
        record = LoadedPlugin(
            name="fake",
            distribution="power-fake",
            version="1.0",
            status="loaded",
            api=(1, 0),
            strategies=tuple(spec.name for spec in specs),
            backends=("llama.cpp",),
            strategy_specs=specs,
            backend_specs=(BackendSpec(name="llama.cpp", open_model=self._open_model),),
            validators=VALIDATORS,
        )
        return PowerPluginManager([record])

    def _strategy(self, kind: str) -> StrategySpec:
        def refuse(target: GgufHeader, draft: GgufHeader | None) -> str | None:
            found = None if draft is None else draft.get("fake.kind")
            return None if found == kind else f"the draft is of kind {found}"

        needs = TargetNeeds(nextn_weights=self.greedy)
        spec = StrategySpec(
            name=kind,
            uses_draft_file=True,
            model_backed=True,
            refuse=refuse,
            needs=lambda target, draft: needs,
            create_drafter=self._create_drafter,
        )
        return attrs.evolve(spec, **self.changes)

    def _mtp(self) -> StrategySpec:
        return StrategySpec(
            name="mtp",
            model_backed=True,
            refuse=lambda target, draft: None if target.get("fake.nextn") else "this file has no MTP head",
            needs=lambda target, draft: TargetNeeds(nextn_weights=True),
            create_drafter=self._create_drafter,
        )

    def _open_model(self, settings: ModelSettings, progress: LoadProgress | None) -> FakeModel:
        self.models.append(settings)
        self.while_loading()
        self.opened.append(FakeModel())
        return self.opened[-1]

    def _create_drafter(self, context: DrafterContext) -> ScriptedDrafter:
        self.drafters.append(context)
        self.built.append(ScriptedDrafter(lambda history, limit: []))
        return self.built[-1]


def opened(change: Callable[[Pair], object], **options: Any) -> Callable[[Path], object]:
    """Return what admits a pair, changes something, and opens a session with the draft."""

    def attempt(folder: Path) -> object:
        pair = admitted_pair(folder, **options)
        change(pair)
        return pair.open()

    return attempt


def found(change: Callable[[Pair], object], **settings: Any) -> Callable[[Path], object]:
    """Return what admits a pair, changes something, and lets a session find the draft."""

    def attempt(folder: Path) -> object:
        pair = admitted_pair(folder)
        change(pair)
        return pair.open_without(**settings)

    return attempt


def resize(path: Path, by: int) -> None:
    """Append zeros, or cut bytes off."""
    data = path.read_bytes()
    path.write_bytes(data + bytes(by) if by > 0 else data[: max(len(data) + by, 0)])
