"""A real target with an MTP drafter beside it, driven row by row."""

import numpy as np
import pytest

from power_core.artifacts import scan_header
from power_core.drafter import DraftRequest
from power_core.plugins import API_VERSION, DrafterContext
from power_core.target import ContextSettings
from power_core.tokens import CommittedRows, SequenceRows, TapRequest, Taps
from power_mtp.drafter import MtpDrafter
from power_mtp.graph import open_graph

DRAFT_MAX = 4


class Bench:
    """All target rows are exact, so that chunks cannot change them; differences come from the drafter alone."""

    def __init__(self, model, **settings):
        values = {"ctx_tokens": 256, "batch_rows": 64, "snapshots": DRAFT_MAX, "threads": 1, **settings}
        self.model = model
        self.target = model.open_context(ContextSettings(taps=TapRequest(nextn=True), **values))
        self.graph = open_graph(
            DrafterContext(
                api_version=API_VERSION,
                target_model=model,
                target_context=self.target,
                target_header=scan_header(model.settings.path),
                draft_path=None,
                draft_header=None,
                draft_max_tokens=DRAFT_MAX,
                threads=1,
            )
        )
        self.drafter = MtpDrafter(self.graph)

    def evaluate(self, tokens, seq_id=0):
        """Evaluate rows on the target; returns them as committed rows."""
        start = self.target.length_tokens(seq_id)
        self.target.evaluate((SequenceRows(seq_id=seq_id, start_pos=start, tokens=tokens),), kernels="decode")
        taps = self.target.read_taps(0, len(tokens))
        return CommittedRows(seq_id=seq_id, start_pos=start, tokens=tokens, taps=taps)

    def start(self, prompt, chunk=64, seq_id=0):
        """A new request; returns the anchor."""
        self.target.clear(seq_id)
        self.drafter.begin(prompt, seq_id=seq_id)
        for at in range(0, len(prompt), chunk):
            piece = prompt[at : at + chunk]
            self.drafter.process(self.evaluate(piece, seq_id))
        return self.target.argmax(len(piece) - 1)

    def propose(self, anchor, limit=DRAFT_MAX, p_min=0.0, seq_id=0):
        n_past = self.target.length_tokens(seq_id)
        return self.drafter.propose(
            DraftRequest(seq_id=seq_id, n_past=n_past, anchor=anchor, limit_tokens=limit, p_min=p_min)
        )

    def round(self, anchor, accepted, seq_id=0, limit=DRAFT_MAX):
        """A round in which the target commits ``accepted`` tokens of its own after the anchor, whatever was proposed.

        Returns the committed tokens and the next anchor.
        """
        proposed = self.propose(anchor, limit, seq_id=seq_id).tokens
        start = self.target.length_tokens(seq_id)
        rows = self.evaluate([anchor, *proposed], seq_id)
        kept, states, following = [anchor], [rows.taps.nextn[:1]], self.target.argmax(0)
        self.target.truncate(start + 1, seq_id)
        for _ in range(accepted):
            kept.append(following)
            states.append(self.evaluate([following], seq_id).taps.nextn)
            following = self.target.argmax(0)
        taps = Taps(nextn=np.concatenate(states))
        self.drafter.process(CommittedRows(seq_id=seq_id, start_pos=start, tokens=kept, taps=taps))
        self.drafter.accept(min(accepted, len(proposed)), seq_id=seq_id)
        return kept, following

    def held_tokens(self, seq_id=0):
        """Rows that the heads' memory really holds."""
        return self.graph._context.length_tokens(seq_id)

    def close(self):
        self.drafter.close()
        self.target.close()


@pytest.fixture
def open_bench():
    """Return a function that opens a bench on a model; all are closed after the test."""
    opened = []

    def open_one(model, **settings):
        opened.append(Bench(model, **settings))
        return opened[-1]

    yield open_one
    for bench in opened:
        bench.close()
