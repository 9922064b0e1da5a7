"""The shipped models: what the files are, and that every drafter drafts well and changes nothing."""

import json
from pathlib import Path

import pytest
from power_zoo import HERE, draft_path, model_path, target_path

from power_core import open_session
from power_core.admission import read_manifest
from power_core.artifacts.drafts import check_draft
from power_core.artifacts.model_files import scan_model
from power_core.plugins.manager import load_plugins

ZOO = Path(__file__).resolve().parents[1]
KINDS = ("dflash", "dflash2", "dspark")
MOST_BYTES = 24_000_000
PROMPTS = [prompt["text"] for prompt in json.loads((ZOO / "prompts.json").read_text(encoding="utf-8"))][:8]


def test_the_models_together_are_small():
    assert sum(path.stat().st_size for path in HERE.rglob("*.gguf")) <= MOST_BYTES


def test_matrices_are_stored_as_the_card_says():
    for name in ("target", *KINDS):
        tensors = scan_model(model_path(name)).header.tensors.values()
        stored = {tensor.type_name for tensor in tensors if len(tensor.shape) == 2 and "conv1d" not in tensor.name}
        assert stored == {"F16"}, name


@pytest.mark.parametrize("kind", KINDS)
def test_every_draft_is_valid_for_the_target_and_admitted(kind):
    path = draft_path(kind)
    assert path is not None
    target, draft = scan_model(target_path()), scan_model(path)
    assert check_draft(target.header, draft.header, load_plugins().validators()) == kind
    manifest = read_manifest(path.with_name(f"{path.name}.admission.json"))
    assert manifest.kind == kind
    assert manifest.draft.sha256 == draft.measure().sha256
    assert manifest.target.sha256 == target.measure().sha256


def test_unknown_kinds_have_no_draft():
    assert draft_path("target") is None
    assert draft_path("eagle3") is None


@pytest.mark.native
@pytest.mark.parametrize(
    ("spec", "drafts", "least"), [("mtp", 1, 0.75), ("dflash", 4, 0.35), ("dflash2", 4, 0.45), ("dspark", 4, 0.45)]
)
def test_drafts_are_accepted_and_output_is_that_of_plain_decoding(spec, drafts, least):
    with open_session(model=target_path(), spec="off") as plain:
        wanted = [plain.generate(prompt, max_tokens=128).result().tokens for prompt in PROMPTS]
    drafted = accepted = 0
    with open_session(model=target_path(), spec=spec, draft=draft_path(spec), draft_max=drafts) as session:
        for prompt, tokens in zip(PROMPTS, wanted, strict=True):
            result = session.generate(prompt, max_tokens=128).result()
            assert result.tokens == tokens
            drafted += result.report.drafted_tokens
            accepted += result.report.accepted_tokens
    assert accepted >= least * drafted > 0
