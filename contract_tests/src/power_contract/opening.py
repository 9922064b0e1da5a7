"""Opens a bench: a subject's drafter beside a tiny target, with the settings that a history needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from power_contract.assertions import ClauseBroken
from power_contract.bench import Bench
from power_contract.histories import HistoryCounts
from power_contract.lines import BenchSettings
from power_contract.loading import subject_strategy
from power_contract.materials import headers, materials
from power_contract.oracle import GREEDY
from power_contract.subject import ContractSubject
from power_core.sampler import SamplingSettings
from power_core.target import ContextSettings
from power_core.tokens import TapRequest

CTX_TOKENS = 160
BATCH_ROWS = 32
LEAST = 1e-30
"""A threshold that stops nothing but makes a drafter report confidences."""


@contextmanager
def open_bench(
    subject: ContractSubject,
    target_kind: str,
    *,
    draft_max: int | None = None,
    ctx: int = CTX_TOKENS,
    batch: int = BATCH_ROWS,
    sequences: int = 1,
    snapshots: int | None = None,
    slice_rows: int | None = None,
    sampling: SamplingSettings = GREEDY,
    willing: bool = False,
    p_min: float | None = None,
    counts: HistoryCounts | None = None,
    find_drafts: bool = False,
) -> Iterator[Bench]:
    """Open a bench and close it.

    Args:
        subject: The plugin under test.
        target_kind: One of ``materials.target_kinds(subject)``.
        draft_max: K, the subject's when None; never more than its files allow.
        ctx: Positions per sequence.
        batch: Most rows of one evaluation and of a prompt's chunk.
        sequences: Independent sequences.
        snapshots: Recurrent snapshots; K when None.
        slice_rows: Rows of a verification slice; a whole block when None.
        sampling: How the target chooses.
        willing: The target can be made to draw the plugin's own drafts (``Bench.follow``), and else repeats the prompt.
        p_min: Threshold that the drafter is opened and asked with; None for one that stops nothing, where the subject
            has confidences.
        counts: Where committed rounds are counted.
        find_drafts: Find the contexts that the drafter opens, to stop their compute.
    """
    spec = subject_strategy(subject)
    target, draft = headers(subject, target_kind)
    most = spec.most_drafts(target, draft)
    wanted = draft_max or subject.draft_max
    drafts = wanted if most is None else min(wanted, most)
    needs = spec.needs(target, draft)
    model = materials().model(subject, target_kind, load_nextn=needs.nextn_weights)
    recurrent = model.info.recurrent
    context = ContextSettings(
        ctx_tokens=ctx,
        batch_rows=batch,
        snapshots=(drafts if snapshots is None else snapshots) if recurrent else 0,
        sequences=sequences,
        threads=1,
        taps=needs.taps or TapRequest(),
    )
    settings = BenchSettings(
        target_kind=target_kind,
        draft_max=drafts,
        context=context,
        load_nextn=needs.nextn_weights,
        p_min=(LEAST if "confidence" in subject.features else 0.0) if p_min is None else p_min,
        sampling=sampling,
        slice_rows=slice_rows or drafts + 1,
        willing=willing,
    )
    bench = Bench(subject, spec, settings, counts or HistoryCounts(), find_drafts=find_drafts)
    try:
        yield bench
    except Exception as error:
        if not isinstance(error, ClauseBroken):
            error.add_note(f"history:  {' '.join(bench.told)}\nexpected: no error")
        raise
    finally:
        bench.close()
