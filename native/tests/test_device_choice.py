"""Greedy choices in the evaluation's own graph: the same tokens, no logits on the host, also for drafters."""

import numpy as np
import pytest

from power_core import open_session
from power_core.errors import NativeCallError
from power_core.sampler import SamplingSettings
from power_core.target import ContextSettings
from power_core.testing.drafts import build_tiny_draft
from power_core.tokens import SequenceRows, TapRequest
from power_native.draft import NextnChain

pytestmark = pytest.mark.native

TOKENS = [3, 1, 4, 1, 5, 9, 2]
GREEDY = SamplingSettings()
DRAWING = SamplingSettings(temperature=0.8, seed=5)


@pytest.fixture
def choosing(open_context):
    return open_context("hybrid", nextn=True, snapshots=6, device_choice=True, sequences=2)


def feed(context, tokens=TOKENS, seq_id=0):
    rows = SequenceRows(seq_id=seq_id, start_pos=context.length_tokens(seq_id), tokens=tokens)
    context.evaluate([rows], kernels="decode")


def test_the_device_chooses_what_the_host_would(choosing, open_context):
    host = open_context("hybrid", nextn=True, snapshots=6)
    feed(host)
    choosing.choose_on_device(True)
    feed(choosing)
    assert [choosing.argmax(row) for row in range(7)] == [host.argmax(row) for row in range(7)]


def test_logits_and_probabilities_are_refused_while_it_does(choosing):
    choosing.choose_on_device(True)
    feed(choosing)
    for read in (choosing.logits, choosing.argmax_probability):
        with pytest.raises(NativeCallError, match="chooses on the device"):
            read(0)
    with pytest.raises(NativeCallError, match="is not in the last evaluation"):
        choosing.argmax(7)


def test_it_can_be_switched_back_and_forth(choosing):
    for turn in range(3):
        for seq_id in range(2):
            choosing.choose_on_device(True)
            feed(choosing, seq_id=seq_id)
            chosen = choosing.argmax(6)
            choosing.choose_on_device(False)
            with pytest.raises(NativeCallError):
                choosing.argmax(6)  # a change drops the last outputs
            choosing.clear(seq_id)
            feed(choosing, seq_id=seq_id)
            assert choosing.argmax(6) == chosen, turn
            choosing.clear(seq_id)


def test_two_sequences_share_an_evaluation(choosing):
    choosing.choose_on_device(True)
    pieces = [SequenceRows(seq_id=seq_id, start_pos=0, tokens=TOKENS[seq_id:4]) for seq_id in range(2)]
    choosing.evaluate(pieces, kernels="decode")
    together = [choosing.argmax(row) for row in range(7)]
    choosing.clear(0)
    choosing.clear(1)
    apart = []
    for seq_id in range(2):
        feed(choosing, TOKENS[seq_id:4], seq_id)
        apart += [choosing.argmax(row) for row in range(4 - seq_id)]
    assert together == apart


def test_samplers_decide_whether_the_device_chooses(choosing):
    choosing.open_sampler(GREEDY)
    feed(choosing)
    with pytest.raises(NativeCallError):
        choosing.logits(0)
    choosing.open_sampler(DRAWING)
    choosing.clear(0)
    feed(choosing)
    assert choosing.logits(0).size > 0


def test_a_context_that_was_not_opened_for_it_never_does(open_context):
    context = open_context("attention")
    context.choose_on_device(True)
    feed(context)
    assert context.logits(0).size > 0


def test_a_chain_of_drafts_is_the_same(models):
    chains = []
    for device_choice in (False, True):
        settings = ContextSettings(
            ctx_tokens=64, batch_rows=16, snapshots=4, taps=TapRequest(nextn=True), device_choice=device_choice
        )
        target = models["hybrid"].open_context(settings)
        feed(target, TOKENS)
        states = target.read_nextn(0, len(TOKENS))
        draft = models["hybrid"].open_nextn_context(target)
        chain = NextnChain(draft, max_tokens=4)
        chain.feed(TOKENS[1:], 1 - 1, np.ascontiguousarray(states[:-1]))
        arguments = {"first_pos": 6, "token": 8, "state": states[-1], "max_tokens": 4}
        chains.append(chain.draft(**arguments, probabilities=False)[0])
        chains.append(chain.draft(**arguments)[0])
        draft.close()
        target.close()
    assert chains[0] == chains[1] == chains[2] == chains[3]


@pytest.mark.parametrize("spec", ["mtp", "dflash", "dflash2", "dspark", "prompt-lookup"])
def test_sessions_emit_the_same_text_and_say_what_was_not_measured(model_paths, tmp_path, spec):
    draft = None
    if spec in ("dflash", "dflash2", "dspark"):
        draft = build_tiny_draft(tmp_path / "draft.gguf", kind=spec, seed=2)
    texts, reports = [], []
    for switch in ("off", "on"):
        with open_session(
            model=model_paths["hybrid"], spec=spec, draft=draft, device_sampling=switch, ctx=256, threads=1
        ) as session:
            result = session.generate([7, 8, 9] * 6, max_tokens=24).result()
        texts.append(result.tokens)
        reports.append(result.report)
    assert texts[0] == texts[1]
    assert reports[0].drafted_tokens == reports[1].drafted_tokens
    assert reports[1].guarantee == "target-authoritative"
    assert "device_sampling" in {event["event"] for event in reports[1].events}
    assert reports[1].settings["device_sampling"] == "on"
