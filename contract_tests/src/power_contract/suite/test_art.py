"""ART: what the plugin says of files, right and broken ones. No model is opened by any of it."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, cast

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from power_contract.assertions import check_equal, check_that
from power_contract.clauses import clause
from power_contract.files import without_key
from power_contract.loading import load_subject, subject_plugins, subject_strategy
from power_contract.materials import headers
from power_contract.profiles import Profile
from power_contract.subject import ContractSubject
from power_core.artifacts import ArtifactValidator, GgufHeader, StringArray, ValueType, check_draft, scan_header
from power_core.errors import ArtifactContractError, ArtifactError, PowerError
from power_core.opening import open_session
from power_core.plugins import BackendSpec, StrategySpec
from power_core.plugins.loading import LoadedPlugin
from power_core.plugins.manager import PowerPluginManager
from power_core.testing import build_tiny_draft, build_tiny_target
from power_core.testing.draft_weights import DraftKind
from power_core.testing.tiny_weights import TargetKind

DRAFT_KINDS: tuple[DraftKind, ...] = ("dflash", "dflash2", "dspark")
OTHER_WIDTH = 128


@contextmanager
def folder() -> Iterator[Path]:
    """A temporary folder."""
    with tempfile.TemporaryDirectory(prefix="power-contract-") as name:
        yield Path(name)


def own_header(subject: ContractSubject, target_kind: str) -> GgufHeader:
    """Return the header of the file that holds the subject's weights."""
    target, draft = headers(subject, target_kind)
    return target if draft is None else draft


def own_validator(subject: ContractSubject) -> ArtifactValidator:
    """Return the subject's validator: the one whose kind is the strategy, or else its only one."""
    validators = load_subject(subject).validators
    found = [each for each in validators if each.kind == subject.strategy] or list(validators)
    check_equal(f"the number of validators for {subject.strategy!r} that the plugin registers", len(found), 1)
    return found[0]


def pair(subject: ContractSubject, target_kind: str, own: GgufHeader) -> tuple[GgufHeader, GgufHeader | None]:
    """Return target and draft with ``own`` in the place of the subject's file."""
    target, draft = headers(subject, target_kind)
    return (own, None) if draft is None else (target, own)


def error_of(what: str, call: Callable[[], object]) -> PowerError:
    """Return the typed error of a call that must fail."""
    try:
        call()
    except PowerError as error:
        return error
    except Exception as error:  # noqa: BLE001 - whatever else escapes is what the clause forbids
        check_that(False, what, expected="a PowerError", actual=repr(error))
    check_that(False, what, expected="a PowerError", actual="no error")
    raise AssertionError("unreachable")


@contextmanager
def nothing_opens(subject: ContractSubject) -> Iterator[PowerPluginManager]:
    """The subject's plugins with a backend whose use is a failure."""
    opened: list[object] = []

    def refuse(settings: object, progress: object) -> NoReturn:
        opened.append(settings)
        raise ArtifactError("the backend was asked to open a model", path="", check_id="contract.opened")

    backend = BackendSpec(name="llama.cpp", open_model=refuse)
    watcher = LoadedPlugin(
        name="watcher",
        distribution="watcher",
        version="1",
        status="loaded",
        backends=("llama.cpp",),
        backend_specs=(backend,),
    )
    own = [each for each in subject_plugins(subject).plugins if each.distribution == subject.name]
    yield PowerPluginManager([*(attrs.evolve(each, backend_specs=(), backends=()) for each in own), watcher])
    check_equal("models that were opened although the files had to be refused first", opened, [])


# ---------------------------------------------------------------------------------------------------------- right files


@clause("ART-01")
def test_the_own_file_passes(subject: ContractSubject, target_kind: str) -> None:
    validator, own = own_validator(subject), own_header(subject, target_kind)
    check_equal("matches() of the subject's own file", validator.matches(own), True)
    failures = [(check.id, check.message) for check in validator.validate(own).failures]
    check_equal("failed checks of the subject's own file", failures, [])
    target, draft = headers(subject, target_kind)
    check_equal("the refusal of the subject's own files", subject_strategy(subject).refuse(target, draft), None)
    if draft is not None:
        kind = check_draft(target, draft, subject_plugins(subject).validators())
        check_equal("the kind that the core finds the draft to be", kind, subject.strategy)


@clause("ART-04")
def test_the_name_of_a_file_decides_nothing(subject: ContractSubject, target_kind: str) -> None:
    own, spec = own_header(subject, target_kind), subject_strategy(subject)
    expected = answers(subject, spec, target_kind, own)
    with folder() as there:
        for name in ("model.bin", "mmproj-eagle3-lora.gguf", "dflash2-dspark-mtp.gguf"):
            copy = Path(shutil.copyfile(own.path, there / name))
            check_equal(
                f"the answers about a copy named {name}",
                answers(subject, spec, target_kind, scan_header(copy)),
                expected,
            )


def answers(subject: ContractSubject, spec: StrategySpec, target_kind: str, own: GgufHeader) -> tuple[object, ...]:
    """Return everything that is said of a file, but for its path."""
    validator, files = own_validator(subject), pair(subject, target_kind, own)
    checks = [(check.id, check.passed) for check in validator.validate(own).checks]
    return validator.matches(own), checks, spec.refuse(*files), spec.needs(*files), spec.most_drafts(*files)


# --------------------------------------------------------------------------------------------------------- broken files


@clause("ART-02")
def test_each_broken_file_is_refused_by_the_check_that_it_breaks(subject: ContractSubject) -> None:
    validator = own_validator(subject)
    cases = list((subject.artifact_cases or list)())
    check_that(bool(cases), "the subject's broken files", expected="at least one", actual="none")
    for case in cases:
        with folder() as there:
            path = case.build(there)
            error = error_of(f"the broken file {case.name!r}", partial(require_valid, validator, path))
        found = (getattr(error, "check_id", None), str(path) in str(error))
        check_equal(
            f"check id, and path in the message, of the error about {case.name!r}", found, (case.check_id, True)
        )
        facts = (getattr(error, "expected", None), getattr(error, "actual", None))
        check_that(
            facts != (None, None), f"the error about {case.name!r}", expected="expected and actual", actual=facts
        )


def require_valid(validator: ArtifactValidator, path: Path) -> None:
    """Read a file and raise for the first check that it fails."""
    validator.validate(scan_header(path)).raise_first()


@clause("ART-03")
def test_other_kinds_of_files_are_neither_claimed_nor_run(subject: ContractSubject, target_kind: str) -> None:
    validator, spec = own_validator(subject), subject_strategy(subject)
    target, draft = headers(subject, target_kind)
    with folder() as there:
        plain = build_tiny_target(
            there / "plain.gguf", kind=cast("TargetKind", target_kind), nextn_layers=heads_of(target_kind)
        )
        kinds = [kind for kind in DRAFT_KINDS if kind != subject.strategy]
        drafts = [
            build_tiny_draft(there / f"{kind}.gguf", kind=kind, target=cast("TargetKind", target_kind))
            for kind in kinds
        ]
        for path in (plain, *drafts):
            other = scan_header(path)
            check_equal(f"matches() of {path.name}", validator.matches(other), False)
            files = (other, None) if draft is None else (target, other)
            check_sentence(f"the refusal of {path.name}", spec.refuse(*files))


def heads_of(target_kind: str) -> int | None:
    """No prediction heads where the target may have some."""
    return 0 if target_kind == "hybrid" else None


def check_sentence(what: str, answer: object) -> None:
    """Require a text."""
    said = isinstance(answer, str) and bool(answer.strip())
    check_that(said, what, expected="one sentence", actual=repr(answer))


@clause("ART-05")
def test_a_file_cut_off_anywhere_is_refused(subject: ContractSubject, target_kind: str) -> None:
    target, draft = headers(subject, target_kind)
    own = target if draft is None else draft
    content = own.path.read_bytes()
    cuts = st.integers(0, own.data_offset_bytes) | st.integers(0, len(content) - 1)
    with folder() as there, nothing_opens(subject) as plugins:
        cut = there / "cut.gguf"

        @given(length=cuts)
        def cut_at(length: int) -> None:
            cut.write_bytes(content[:length])
            files: dict[str, Any] = {"model": cut} if draft is None else {"model": target.path, "draft": cut}
            error = error_of(
                f"a file of which {length} of {len(content)} bytes are left",
                lambda: open_session(spec=subject.strategy, plugins=plugins, **files).close(),
            )
            check_that(
                isinstance(error, ArtifactError),
                "a file that was cut off",
                expected="ArtifactError",
                actual=repr(error),
            )

        cut_at()


@clause("ART-06")
def test_no_default_stands_in_for_a_layout_key(subject: ContractSubject, target_kind: str) -> None:
    validator, own = own_validator(subject), own_header(subject, target_kind)
    check_that(bool(subject.layout_keys), "layout_keys of the subject", expected="at least one", actual="none")
    for key in subject.layout_keys:
        check_that(
            key in own.metadata,
            f"the subject's own file has no {key}",
            expected="it has it",
            actual=sorted(own.metadata),
        )
        report = validator.validate(without_key(own, key))
        error = error_of(f"a file without {key}", report.raise_first)
        named = isinstance(error, ArtifactContractError) and key in str(error)
        check_that(
            named,
            f"the error about a file without {key}",
            expected="ArtifactContractError that names it",
            actual=repr(error),
        )


VALUES = st.one_of(
    st.tuples(st.just(ValueType.UINT32), st.sampled_from([0, 1, 2, 3, 7, 2**31, 2**32 - 1])),
    st.tuples(st.just(ValueType.INT32), st.sampled_from([-(2**31), -1, 0, 1])),
    st.tuples(st.just(ValueType.UINT64), st.sampled_from([0, 1, 2**63, 2**64 - 1])),
    st.tuples(st.just(ValueType.FLOAT32), st.sampled_from([0.0, -1.0, math.nan, math.inf, 1e-38])),
    st.tuples(st.just(ValueType.BOOL), st.booleans()),
    st.tuples(st.just(ValueType.STRING), st.sampled_from(["", "dflash", "\x00", "a" * 300])),
)
HEADERS_PER_EXAMPLE = 25
"""A header is quickly asked about: no file is written, no model opened."""
SHAPES = st.lists(st.sampled_from([0, 1, 2, 3, 255, 256, 2**31, 2**62]), min_size=1, max_size=4).map(tuple)


@clause("ART-07")
def test_whatever_a_file_holds_there_is_an_answer(subject: ContractSubject, target_kind: str, profile: Profile) -> None:
    validator, spec = own_validator(subject), subject_strategy(subject)
    target, draft = headers(subject, target_kind)
    own = target if draft is None else draft

    @settings(max_examples=HEADERS_PER_EXAMPLE * profile.examples)
    @given(data=st.data())
    def ask_about_a_broken_file(data: st.DataObject) -> None:
        broken, told = break_something(own, data)
        files = (broken, None) if draft is None else (target, broken)
        for question, *asked in (
            (validator.matches, broken),
            (validator.validate, broken),
            (spec.refuse, *files),
            (spec.needs, *files),
            (spec.most_drafts, *files),
            (spec.most_ctx, *files),
            (spec.has_confidence, *files),
        ):
            check_equal(f"what escapes {question.__name__}() of {told}", stray_error(partial(question, *asked)), None)

    ask_about_a_broken_file()


def break_something(header: GgufHeader, data: st.DataObject) -> tuple[GgufHeader, str]:
    """Return the header with one value, array or shape replaced, and what was done in words."""
    if data.draw(st.booleans(), label="a tensor"):
        name = data.draw(st.sampled_from(sorted(header.tensors)))
        shape = data.draw(SHAPES)
        tensors = {**header.tensors, name: attrs.evolve(header.tensors[name], shape=shape)}
        return attrs.evolve(header, tensors=tensors), f"a file whose {name} has shape {shape}"
    key = data.draw(st.sampled_from(sorted(header.metadata)))
    value_type, value = data.draw(VALUES)
    stored: tuple[ValueType, ValueType | None] = (value_type, None)
    if data.draw(st.booleans(), label="an array") and value_type is not ValueType.STRING:
        stored, value = (ValueType.ARRAY, value_type), (value,) * data.draw(st.integers(0, 5))
    changed = attrs.evolve(header, metadata={**header.metadata, key: value}, types={**header.types, key: stored})
    return changed, f"a file whose {key} is {value!r}"


def stray_error(question: Callable[[], object]) -> str | None:
    """Return what escapes a question, None for an answer or a typed error."""
    try:
        question()
    except PowerError:
        return None
    except Exception as error:  # noqa: BLE001 - whatever else escapes is what the clause forbids
        return repr(error)
    return None


# -------------------------------------------------------------------------------------------------------- other targets


@clause("ART-08")
def test_a_draft_with_another_tokenizer_is_refused(subject: ContractSubject, target_kind: str) -> None:
    target, draft = headers(subject, target_kind)
    assert draft is not None
    tokens: StringArray = target.require_array("tokenizer.ggml.tokens", ValueType.STRING)
    renamed = attrs.evolve(tokens, data=tokens.data[:-1] + b"~")
    others = {
        "no tokens": without_key(target, "tokenizer.ggml.tokens"),
        "another last token": attrs.evolve(target, metadata={**target.metadata, "tokenizer.ggml.tokens": renamed}),
    }
    validators = subject_plugins(subject).validators()
    for name, other in others.items():
        error_of(f"a draft beside a target with {name}", partial(check_draft, other, draft, validators))


@clause("ART-10")
def test_a_draft_for_another_width_is_refused(subject: ContractSubject, target_kind: str) -> None:
    _, draft = headers(subject, target_kind)
    assert draft is not None
    with folder() as there, nothing_opens(subject) as plugins:
        other = build_tiny_target(there / "other.gguf", kind=cast("TargetKind", target_kind), hidden=OTHER_WIDTH)
        check_sentence(
            "the refusal of a target of another width", subject_strategy(subject).refuse(scan_header(other), draft)
        )
        error_of(
            "a session on a target of another width",
            lambda: open_session(model=other, draft=draft.path, spec=subject.strategy, plugins=plugins).close(),
        )


@clause("ART-09")
def test_without_its_weights_the_strategy_fails(subject: ContractSubject, target_kind: str) -> None:
    with folder() as there, nothing_opens(subject) as plugins:
        bare = build_tiny_target(
            there / "bare.gguf", kind=cast("TargetKind", target_kind), nextn_layers=heads_of(target_kind)
        )
        check_sentence(
            "the refusal of files without weights", subject_strategy(subject).refuse(scan_header(bare), None)
        )
        error_of(
            "a session without weights for the strategy",
            lambda: open_session(model=bare, spec=subject.strategy, plugins=plugins).close(),
        )
