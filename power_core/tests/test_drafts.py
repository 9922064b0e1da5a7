"""What ``check_draft`` answers: the kind of a good draft, and for every broken one of the catalogue its own error."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from artifact_cases import ArtifactCase, error_of
from broken_drafts import CASES
from draft_faults import BOOL, STRING, U32, VALIDATORS, check, scan, target_bytes

from power_core.artifacts.drafts import check_draft
from power_core.artifacts.gguf import GgufHeader, scan_header
from power_core.artifacts.pairing import PAIR_PREFIX, check_tokenizer_pair
from power_core.artifacts.validation import CheckList, ValidationReport
from power_core.errors import ArtifactContractError, ArtifactPairingError, PluginContractError, PowerError
from power_core.testing.draft_headers import minimal_draft
from power_core.testing.draft_weights import DraftKind
from power_core.testing.drafts import build_tiny_draft
from power_core.testing.headers import GgufBytes
from power_core.testing.models import build_tiny_target

KINDS: tuple[DraftKind, ...] = ("dflash", "dflash2", "dspark")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_fault_is_named(tmp_path: Path, case: ArtifactCase) -> None:
    error = error_of(case, tmp_path)
    assert error.hint
    assert ".gguf" in str(error)


def test_names_of_cases_are_unique() -> None:
    assert not [name for name, count in Counter(case.name for case in CASES).items() if count > 1]


@pytest.mark.parametrize("kind", KINDS)
def test_every_check_has_a_case(tmp_path: Path, kind: DraftKind) -> None:
    draft = scan(tmp_path, "d.gguf", minimal_draft(kind).with_mapping((0, 1, 3)).build())
    target = scan(tmp_path, "t.gguf", target_bytes().build())
    pairing = CheckList(PAIR_PREFIX)
    check_tokenizer_pair(target, draft, pairing)
    reports = (
        VALIDATORS[kind].validate(draft),
        VALIDATORS[kind].validate_pair(target, draft),
        pairing.report(kind, draft.path),
    )
    made = {check.id for report in reports for check in report.checks}
    assert len(made) > 40
    assert made <= {case.check_id for case in CASES}


@pytest.mark.parametrize("kind", KINDS)
def test_kind_of_a_good_draft(tmp_path: Path, kind: DraftKind) -> None:
    assert check(tmp_path, minimal_draft(kind).build()) == kind
    assert check(tmp_path, minimal_draft(kind).with_mapping((2, 0, 3)).build()) == kind


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "form",
    [
        {},
        {"own_embeddings": True, "window_tokens": 16, "causal": True},
        {"own_head": True, "dtype": "F16"},
        {"draft_vocabulary_tokens": 100, "dtype": "Q8_0"},
    ],
    ids=["shared", "window", "own-head", "mapping"],
)
def test_drafts_that_compute_are_accepted(tmp_path: Path, kind: DraftKind, form: dict[str, object]) -> None:
    target = scan_header(build_tiny_target(tmp_path / "t.gguf", kind="hybrid"))
    draft = scan_header(build_tiny_draft(tmp_path / "d.gguf", kind=kind, target="hybrid", **form))  # type: ignore[arg-type]
    assert check_draft(target, draft, list(VALIDATORS.values())) == kind


@pytest.mark.parametrize(
    ("name", "sentence", "hint"),
    [
        ("draft-in-fork-format", "'dflash-draft.dflash.block_size'", "Convert the checkpoint again"),
        ("draft-is-eagle3", "an EAGLE-3 drafter", "a plugin for EAGLE-3 is needed"),
        ("draft-is-a-target", "Target model", "a whole model cannot draft"),
        ("draft-is-a-target-with-mtp", "predict ahead (MTP)", "--spec mtp"),
        ("draft-is-an-mtp-companion", "without the model they belong to", "give the target that contains its own"),
        ("draft-is-an-adapter", "an adapter", "leave it out"),
        ("draft-is-a-later-shard", "Shard 2 of 3", "has to be one file"),
        ("draft-without-its-plugin", "looks like dspark", "pip install power-dspark"),
        ("dspark-declared-as-dflash", "of kind dspark: it has dflash.sample_from_anchor", "power inspect"),
    ],
)
def test_words_say_what_the_file_is_and_what_to_do(tmp_path: Path, name: str, sentence: str, hint: str) -> None:
    case = next(case for case in CASES if case.name == name)
    with pytest.raises(PowerError) as caught:
        case.attempt(tmp_path)
    assert sentence in str(caught.value)
    assert hint in caught.value.hint


class StrangersValidator:
    """A validator of another package: it raises for files without an architecture, and accepts everything else."""

    kind = "stranger"
    describe = "anything"

    def matches(self, header: GgufHeader) -> bool:
        return header.architecture == "stranger"

    def validate(self, header: GgufHeader) -> ValidationReport:
        checks = CheckList(self.kind)
        checks.add("any", True, "nothing to check")
        return checks.report(self.kind, header.path)

    def validate_pair(self, target: GgufHeader, draft: GgufHeader) -> ValidationReport:
        return CheckList(self.kind).report(self.kind, draft.path)


def stranger(tokens: list[str]) -> GgufBytes:
    content = GgufBytes().with_value("general.architecture", STRING, "stranger")
    content = content.with_array("tokenizer.ggml.tokens", STRING, tokens)
    for name, value in (("model", "gpt2"), ("pre", "qwen2")):
        content = content.with_value(f"tokenizer.ggml.{name}", STRING, value)
    content = content.with_value("tokenizer.ggml.eos_token_id", U32, 3)
    return content.with_value("tokenizer.ggml.add_bos_token", BOOL, False)


def test_core_compares_tokenizers_also_for_a_strangers_kind(tmp_path: Path) -> None:
    target = scan(tmp_path, "t.gguf", target_bytes().build())
    good = scan(tmp_path, "a.gguf", stranger(["a", "b", "ab", "<end>"]).build())
    assert check_draft(target, good, [StrangersValidator()]) == "stranger"
    other = scan(tmp_path, "b.gguf", stranger(["a", "b", "ba", "<end>"]).build())
    with pytest.raises(ArtifactPairingError, match="token 2 is 'ab' in the target and 'ba' in the draft"):
        check_draft(target, other, [StrangersValidator()])


def test_strangers_validator_that_raises_for_a_missing_key_claims_nothing(tmp_path: Path) -> None:
    target = scan(tmp_path, "t.gguf", target_bytes().build())
    with pytest.raises(ArtifactContractError) as caught:
        check_draft(target, scan(tmp_path, "d.gguf", GgufBytes().build()), [StrangersValidator()])
    assert caught.value.check_id == "draft.role"


class _RaisingValidator:
    """A stranger's validator with a mistake in one of its methods."""

    kind = "stranger"
    describe = "raises"

    def __init__(self, where: str) -> None:
        self._where = where

    def matches(self, header: GgufHeader) -> bool:
        return self._answer("matches", True)

    def validate(self, header: GgufHeader) -> ValidationReport:
        return self._answer("validate", self._report(header))

    def validate_pair(self, target: GgufHeader, draft: GgufHeader) -> ValidationReport:
        return self._answer("validate_pair", self._report(draft))

    def _answer(self, method, answer):
        if method == self._where:
            raise KeyError("a mistake")
        return answer

    def _report(self, header: GgufHeader) -> ValidationReport:
        checks = CheckList("stranger")
        checks.add("fine", True, "fine")
        return checks.report("stranger", header.path)


@pytest.mark.parametrize("where", ["matches", "validate", "validate_pair"])
def test_a_validator_that_raises_is_blamed(tmp_path: Path, where: str) -> None:
    draft = scan(tmp_path, "d.gguf", minimal_draft("dflash").build())
    target = scan(tmp_path, "t.gguf", target_bytes().build())
    assert check_draft(target, draft, [_RaisingValidator("nowhere")]) == "stranger"
    with pytest.raises(PluginContractError, match="validator of 'stranger' failed: KeyError"):
        check_draft(target, draft, [_RaisingValidator(where)])
