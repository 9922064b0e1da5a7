"""A draft head of fewer rows in a session: the target's output stays whatever the set, and the report names the set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import power_zoo
import pytest

from power_core import open_session
from power_core.artifacts import scan_header, tokenizer_fingerprint
from power_core.errors import ArtifactPairingError, ConfigError, UnsupportedStrategyError
from power_core.plugins.manager import load_plugins
from power_core.target import ContextSettings, ModelSettings, TapRequest
from power_core.testing.models import build_tiny_target
from power_core.testing.parity import FORCED, forced_session, reference, run_parity, text_prompts
from power_mtp.config import MtpConfig
from power_mtp.fr_map import FrMap, write_fr_map
from power_native import NativeModel
from power_native.quantize import quantize

pytestmark = pytest.mark.native

COMMON = {"ctx": 512, "batch": 64, "threads": 1}
SPEC = {"spec": "mtp", "draft_max": 4, **COMMON}
PROMPTS, TOKENS = 3, 40
TARGETS = ("tiny", "zoo")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fr")


@pytest.fixture(scope="module")
def targets(folder):
    return {
        "tiny": build_tiny_target(folder / "tiny.gguf", kind="hybrid", seed=5),
        "zoo": power_zoo.target_path(),
    }


@pytest.fixture(scope="module")
def truths(targets):
    return {name: reference(path, text_prompts(PROMPTS), TOKENS, **COMMON) for name, path in targets.items()}


@pytest.fixture(scope="module")
def rank(folder, targets):
    """Return a function that writes a map of a target with the tokens it is given."""

    def write(name: str, ids: object) -> Path:
        header = scan_header(targets[name])
        fr_map = FrMap(
            token_ids=np.asarray(ids, np.int64),
            vocabulary_tokens=vocabulary(targets[name]),
            tokenizer_fingerprint=str(tokenizer_fingerprint(header)),
            corpus_sha256="0" * 64,
            corpus_tokens=1,
            covered_tokens=1,
        )
        path = folder / f"{name}-{fr_map.d2t_sha256[:8]}.map.gguf"
        write_fr_map(path, fr_map)
        return path

    return write


def vocabulary(target: Path) -> int:
    return len(scan_header(target).require("tokenizer.ggml.tokens"))


def by_use(truth, n_vocab):
    """The tokens that the target emits, then all others: what a good ranking would be."""
    used = np.unique([token for tokens in truth.values() for token in tokens])
    return np.concatenate((used, np.setdiff1d(np.arange(n_vocab)[::-1], used)))


def head(request_order, rows, name, targets, truths, rank):
    """Return the settings of one head; ``rows`` None is a head of all tokens."""
    count = vocabulary(targets[name]) if rows is None else rows
    if request_order == "plain":
        return {"mtp_fr_vocab_size": count}
    return {"mtp_fr_vocab_size": count, "mtp_fr_map": rank(name, by_use(truths[name], vocabulary(targets[name])))}


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("rows", [64, 512, None])
@pytest.mark.parametrize("order", ["plain", "ranked"])
def test_greedy_output_equals_plain_decoding(targets, truths, rank, name, rows, order):
    settings = {**SPEC, **head(order, rows, name, targets, truths, rank)}
    run = run_parity(targets[name], truths[name], None, **settings)
    assert run.differing == ()
    assert run.drafted_tokens > 0
    assert run.replays == 0


@pytest.mark.parametrize("forced", FORCED)
def test_every_acceptance_leaves_the_output(targets, truths, forced):
    run = run_parity(targets["tiny"], truths["tiny"], forced, mtp_fr_vocab_size=64, **SPEC)
    assert run.differing == ()


@pytest.mark.parametrize("name", TARGETS)
def test_sampled_output_equals_plain_decoding(targets, truths, rank, name):
    ranked = head("ranked", 64, name, targets, truths, rank)
    outputs = []
    for settings in ({"spec": "off", **COMMON}, {**SPEC, **ranked}, {**SPEC, "mtp_fr_vocab_size": 64}):
        with open_session(model=targets[name], **settings) as session:
            outputs.append(session.generate("def main(", max_tokens=TOKENS, temperature=0.8, seed=7).result().tokens)
    assert outputs[1] == outputs[0]
    assert outputs[2] == outputs[0]


def test_nothing_is_accepted_when_every_right_token_lies_outside(targets, truths, rank):
    used = {token for tokens in truths["zoo"].values() for token in tokens}
    outside = rank("zoo", [token for token in range(vocabulary(targets["zoo"])) if token not in used])
    run = run_parity(targets["zoo"], truths["zoo"], None, mtp_fr_map=outside, **SPEC)
    assert run.differing == ()
    assert run.accepted_tokens == 0
    assert run.drafted_tokens > 0
    assert run.emitted_tokens == PROMPTS * TOKENS


def test_a_set_that_holds_all_right_tokens_accepts_no_less_than_the_whole_head(targets, truths, rank):
    used = sorted({token for tokens in truths["zoo"].values() for token in tokens})
    whole = run_parity(targets["zoo"], truths["zoo"], None, **SPEC)
    few = run_parity(targets["zoo"], truths["zoo"], None, mtp_fr_map=rank("zoo", used), **SPEC)
    assert few.differing == ()
    assert few.rounds <= whole.rounds


@pytest.mark.parametrize("order", ["plain", "ranked"])
def test_a_head_of_all_rows_drafts_what_the_whole_head_drafts(targets, truths, rank, order):
    whole = run_parity(targets["tiny"], truths["tiny"], None, **SPEC)
    settings = head(order, None, "tiny", targets, truths, rank)
    run = run_parity(targets["tiny"], truths["tiny"], None, **SPEC, **settings)
    assert (run.drafted_tokens, run.accepted_tokens) == (whole.drafted_tokens, whole.accepted_tokens)


def test_the_report_says_which_tokens_can_be_drafted(targets, truths, rank):
    (prompt, *_) = truths["tiny"]

    def facts(**settings):
        with forced_session(targets["tiny"], truths["tiny"], None, **SPEC, **settings) as session:
            return session.generate(list(prompt), max_tokens=4).result().report.settings.get("drafter")

    assert facts() is None
    assert facts(mtp_fr_vocab_size=512) is None
    plain = facts(mtp_fr_vocab_size=64)
    assert (plain["fr_rows"], plain["fr_of_tokens"], plain["fr_order"]) == (64, 512, "token id")
    assert plain["confidence"] == "over 64 tokens"
    ranked = facts(mtp_fr_vocab_size=32, mtp_fr_map=rank("tiny", range(100, 200)))
    assert (ranked["fr_rows"], ranked["fr_order"]) == (32, "ranked")
    assert len(ranked["fr_d2t_sha256"]) == 64
    assert ranked["fr_head_bytes"] >= 32 * (256 * 4 + 4) > plain["fr_head_bytes"]


def test_more_rows_than_the_map_has_are_all_of_it(targets, truths, rank):
    with open_session(
        model=targets["tiny"], mtp_fr_vocab_size=500, mtp_fr_map=rank("tiny", range(40)), **SPEC
    ) as session:
        assert session.generate([1, 2], max_tokens=2).result().report.settings["drafter"]["fr_rows"] == 40


def test_a_threshold_is_measured_over_the_set(targets, truths, rank):
    one = run_parity(targets["tiny"], truths["tiny"], None, mtp_fr_map=rank("tiny", [7]), draft_p_min=0.99, **SPEC)
    whole = run_parity(targets["tiny"], truths["tiny"], None, draft_p_min=0.99, **SPEC)
    assert one.differing == ()
    assert one.drafted_tokens > whole.drafted_tokens


def test_a_map_of_another_tokenizer_is_refused(targets, rank):
    with pytest.raises(ArtifactPairingError, match="was built for the tokenizer"):
        open_session(model=targets["zoo"], mtp_fr_map=rank("tiny", range(8)), **SPEC)


def test_another_strategy_does_not_have_it(targets):
    with pytest.raises(ConfigError, match="`mtp_fr_map` is set, but the strategy prompt-lookup does not have it"):
        open_session(model=targets["tiny"], spec="prompt-lookup", mtp_fr_map=Path("a.gguf"), **COMMON)


def test_weights_that_the_library_repacked_are_refused(tmp_path, targets):
    """Repacking stores Q4_0 in another order of rows; sessions never ask for it."""
    path = tmp_path / "q4_0.gguf"
    quantize(targets["tiny"], path, "Q4_0", pure=True)
    fast = {"arithmetic": "fast", "load_nextn": True}
    with (
        NativeModel.open(ModelSettings(path=path, **fast), repack_weights=True) as model,
        model.open_context(ContextSettings(ctx_tokens=64, batch_rows=8, taps=TapRequest(nextn=True))) as target,
        pytest.raises(ConfigError, match=r"cannot have 64 rows: .*'output.weight', which was repacked"),
    ):
        model.open_nextn_context(target, head_rows=64)
    with open_session(model=path, mtp_fr_vocab_size=64, arithmetic="fast", **SPEC) as session:
        assert session.generate([1, 2, 3], max_tokens=8).result().report.emitted_tokens == 8


def test_the_target_keeps_its_whole_vocabulary(targets, truths):
    """The model is not changed by a drafter that was opened on it: plain decoding beside it is as before."""
    backend = load_plugins().backend()
    with open_session(model=targets["tiny"], mtp_fr_vocab_size=1, **SPEC) as session:
        for prompt, tokens in truths["tiny"].items():
            assert list(session.generate(list(prompt), max_tokens=TOKENS).result().tokens) == tokens
    model = backend.open_model(ModelSettings(path=targets["tiny"]), None)
    assert model.info.n_vocab == 512
    model.close()


def test_other_architectures_are_refused_by_name():
    with pytest.raises(UnsupportedStrategyError, match="not implemented for GGUF architecture 'glm4moe'"):
        MtpConfig(fr_map=Path("a.gguf")).require_supported("glm4moe")
