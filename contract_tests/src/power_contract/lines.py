"""One sequence of a bench, and how a bench is opened."""

from __future__ import annotations

import attrs

from power_contract.willing import WillingSampler
from power_core.report import Report
from power_core.sampler import Sampler, SamplingSettings
from power_core.sequence import TargetSequence
from power_core.target import ContextSettings
from power_core.tokens import SeqId, TokenId
from power_core.transaction import Round


class Line:
    """One sequence of a bench: its request, and how far it has come."""

    def __init__(
        self,
        seq_id: SeqId,
        sequence: TargetSequence,
        sampler: Sampler,
        parts: Round,
        willing: WillingSampler | None = None,
    ) -> None:
        self.seq_id = seq_id
        self.willing = willing
        self.sequence = sequence
        self.sampler = sampler
        self.parts = parts
        self.prompt: tuple[TokenId, ...] = ()
        self.report = Report(strategy="contract")

    @property
    def generated(self) -> list[TokenId]:
        """Tokens after the prompt, the anchor included."""
        return self.sequence.history[len(self.prompt) :]

    @property
    def committed(self) -> list[TokenId]:
        """Tokens after the prompt that are in the memory."""
        return self.generated[:-1]


@attrs.frozen(kw_only=True)
class BenchSettings:
    """How a bench is opened; also how its twin is."""

    target_kind: str
    draft_max: int
    context: ContextSettings
    load_nextn: bool
    p_min: float
    sampling: SamplingSettings
    slice_rows: int
    willing: bool = False
