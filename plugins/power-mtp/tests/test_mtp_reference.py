"""The known drafts that the contract kit compares with are those of the NumPy reference, by a clear lead."""

import pytest
from mtp_reference import MtpReference

from power_core.plugins.manager import load_plugins
from power_core.target import ContextSettings, ModelSettings
from power_core.testing import build_tiny_target
from power_core.tokens import SequenceRows, TapRequest
from power_mtp.contract import KNOWN_DRAFTS

pytestmark = pytest.mark.native

LEAD = 0.05


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return build_tiny_target(tmp_path_factory.mktemp("models") / "hybrid.gguf", kind="hybrid")


def state_rows(target, prompt):
    """Return the state rows that the library computes for a prompt."""
    model = load_plugins().backend().open_model(ModelSettings(path=target), None)
    settings = ContextSettings(ctx_tokens=64, batch_rows=32, threads=1, taps=TapRequest(nextn=True))
    context = model.open_context(settings)
    context.evaluate((SequenceRows(start_pos=0, tokens=list(prompt), logits="last"),), kernels="prefill")
    rows = context.read_taps(0, len(prompt)).nextn
    context.close()
    model.close()
    return rows


@pytest.mark.parametrize("known", KNOWN_DRAFTS, ids=lambda each: f"{each.prompt[0]}-{each.anchor}")
def test_a_known_draft_is_the_references(target, known):
    tokens, leads = MtpReference(target).drafts(
        known.prompt, state_rows(target, known.prompt), known.anchor, len(known.tokens)
    )
    assert tuple(tokens) == known.tokens
    assert min(leads) > LEAD
