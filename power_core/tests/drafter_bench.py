"""A real target with a drafter beside it, driven row by row.

All target rows are exact, so that chunks cannot change them; differences come from the drafter alone.
"""

import numpy as np

from power_core.artifacts import scan_header
from power_core.drafter import DraftRequest
from power_core.plugins import API_VERSION, DrafterContext
from power_core.target import ContextSettings
from power_core.tokens import CommittedRows, SequenceRows, Taps

DRAFT_MAX = 4
LOWEST = 1e-30  # a threshold that stops nothing but makes a drafter report confidences


class DrafterBench:
    """One target context, and the drafter that ``spec`` makes for it."""

    def __init__(self, model, spec, draft=None, *, draft_max=DRAFT_MAX, draft_p_min=0.0, **settings):
        header = scan_header(model.settings.path)
        draft_header = None if draft is None else scan_header(draft)
        snapshots = draft_max if model.info.recurrent else 0
        values = {"ctx_tokens": 256, "batch_rows": 64, "snapshots": snapshots, "threads": 1, **settings}
        self.model = model
        self.draft_max = draft_max
        self.target = model.open_context(ContextSettings(taps=spec.needs(header, draft_header).taps, **values))
        try:
            self.drafter = spec.create_drafter(
                DrafterContext(
                    api_version=API_VERSION,
                    target_model=model,
                    target_context=self.target,
                    target_header=header,
                    draft_path=draft,
                    draft_header=draft_header,
                    draft_max_tokens=draft_max,
                    draft_p_min=draft_p_min,
                    threads=1,
                )
            )
        except BaseException:
            self.target.close()
            raise
        self.draft_context = self.drafter._graph._context

    def evaluate(self, tokens, seq_id=0):
        """Evaluate rows on the target; returns them as committed rows."""
        start = self.target.length_tokens(seq_id)
        self.target.evaluate((SequenceRows(seq_id=seq_id, start_pos=start, tokens=tokens),), kernels="decode")
        taps = self.target.read_taps(0, len(tokens))
        return CommittedRows(seq_id=seq_id, start_pos=start, tokens=tokens, taps=taps)

    def evaluate_again(self, tokens, seq_id=0):
        """Evaluate the whole history anew on the target alone."""
        self.target.clear(seq_id)
        return self.evaluate(tokens, seq_id)

    def start(self, prompt, chunk=64, seq_id=0):
        """A new request; returns the anchor."""
        self.target.clear(seq_id)
        self.drafter.begin(prompt, seq_id=seq_id)
        for at in range(0, len(prompt), chunk):
            piece = prompt[at : at + chunk]
            self.drafter.process(self.evaluate(piece, seq_id))
        return self.target.argmax(len(piece) - 1)

    def propose(self, anchor, limit=None, p_min=0.0, seq_id=0, n_past=None):
        n_past = self.target.length_tokens(seq_id) if n_past is None else n_past
        limit = self.draft_max if limit is None else limit
        return self.drafter.propose(
            DraftRequest(seq_id=seq_id, n_past=n_past, anchor=anchor, limit_tokens=limit, p_min=p_min)
        )

    def round(self, anchor, accepted, seq_id=0, limit=None):
        """A round in which the target commits ``accepted`` tokens of its own after the anchor, whatever was proposed.

        Returns the committed tokens and the next anchor.
        """
        proposed = self.propose(anchor, limit, seq_id=seq_id).tokens
        start = self.target.length_tokens(seq_id)
        rows = self.evaluate([anchor, *proposed], seq_id)
        kept, taps, following = [anchor], [first_row(rows.taps)], self.target.argmax(0)
        self.target.truncate(start + 1, seq_id)
        for _ in range(accepted):
            kept.append(following)
            taps.append(self.evaluate([following], seq_id).taps)
            following = self.target.argmax(0)
        self.drafter.process(CommittedRows(seq_id=seq_id, start_pos=start, tokens=kept, taps=joined(taps)))
        self.drafter.accept(min(accepted, len(proposed)), seq_id=seq_id)
        return kept, following

    def held_tokens(self, seq_id=0):
        """Rows that the drafter's memory really holds."""
        return self.draft_context.length_tokens(seq_id)

    def close(self):
        self.drafter.close()
        self.target.close()


def first_row(taps):
    return Taps(**{name: None if rows is None else rows[:1] for name, rows in parts(taps).items()})


def joined(taps):
    columns = {name: [parts(one)[name] for one in taps] for name in ("nextn", "layers")}
    return Taps(**{name: None if rows[0] is None else np.concatenate(rows) for name, rows in columns.items()})


def parts(taps):
    return {"nextn": taps.nextn, "layers": taps.layers}


def same(left, right):
    """The same drafts, with the same confidences bit for bit."""
    return list(left.tokens) == list(right.tokens) and np.array_equal(left.confidence, right.confidence)
