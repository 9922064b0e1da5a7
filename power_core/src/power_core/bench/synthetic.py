"""Synthetic acceptance: drafts that are right with chosen probabilities, while the drafter's own work is done in full.

For capacity planning: what would a drafter of this cost bring if its drafts were accepted like that? Plain decoding
runs first, so that the right tokens are known. Every output made this way says so.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import attrs
import numpy as np
from numpy.typing import NDArray

from power_core.drafter import Drafter, DrafterCheckpoint, DraftRequest, Proposal
from power_core.errors import ConfigError, StateError
from power_core.opening import Progress, open_session
from power_core.plugins.manager import PowerPluginManager, load_plugins
from power_core.session import Session
from power_core.settings import SessionSettings
from power_core.target import TargetContext
from power_core.tokens import CommittedRows, SeqId, TokenId
from power_core.whole_rounds import RoundsAfter, WholeRounds, offered_rounds

Truth: TypeAlias = Mapping[tuple[TokenId, ...], Sequence[TokenId]]
"""Prompt to plain continuation: what the target emits after it."""

MOST_POSITIONS = 64
EVENT = "synthetic_acceptance"


@attrs.frozen(kw_only=True)
class AcceptanceProfile:
    """How often drafts are right.

    Attributes:
        probabilities: At place i, the probability that draft i + 1 is right where all drafts before it are.
        seed: The same seed gives the same right and wrong drafts at every position of the text, for every strategy.
    """

    probabilities: tuple[float, ...]
    seed: int = 0

    def __attrs_post_init__(self) -> None:
        if not 1 <= len(self.probabilities) <= MOST_POSITIONS:
            raise _profile_error(f"has {len(self.probabilities)} positions, expected 1 to {MOST_POSITIONS}")
        for value in self.probabilities:
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0.0 <= value <= 1.0:
                raise _profile_error(f"holds {value!r}, expected probabilities from 0 to 1")
        if not isinstance(self.seed, int) or isinstance(self.seed, bool) or self.seed < 0:
            raise _profile_error(f"has the seed {self.seed!r}, expected a whole number of 0 or more")

    @property
    def description(self) -> str:
        """The profile in words, for tables and titles."""
        shown = ", ".join(f"{value:g}" for value in self.probabilities)
        return f"synthetic acceptance {shown} (seed {self.seed})"

    def right_drafts(self, prompt: Sequence[TokenId], places: int) -> NDArray[np.intp]:
        """Draw how many of the first drafts are right at each of ``places`` positions; intp[places]."""
        rng = np.random.default_rng([self.seed, zlib.crc32(np.asarray(prompt, dtype=np.int32).tobytes())])
        right = rng.random((places, len(self.probabilities))) < np.asarray(self.probabilities)
        counts: NDArray[np.intp] = np.logical_and.accumulate(right, axis=1).sum(axis=1)
        return counts


def parse_profile(text: str, *, seed: int = 0) -> AcceptanceProfile:
    """Return the profile written as numbers between commas, ``0.9,0.8,0.7``, or in the file of that name.

    A file holds the numbers in the same way, also on several lines; ``#`` starts a comment.

    Raises:
        ConfigError: neither; a number is no probability.
    """
    written = text if _is_list(text) else _read_profile(Path(text))
    try:
        numbers = tuple(float(word) for word in written.replace(",", " ").split())
    except ValueError as error:
        raise _profile_error(f"is {text!r}: {error}") from error
    return AcceptanceProfile(probabilities=numbers, seed=seed)


def record_truth(
    session: Session, prompts: Sequence[Sequence[TokenId]], max_tokens: int
) -> dict[tuple[int, ...], list[int]]:
    """Return what a session of plain decoding emits after each prompt, with default sampling."""
    return {tuple(prompt): list(session.generate(prompt, max_tokens=max_tokens).result().tokens) for prompt in prompts}


def open_synthetic_session(
    settings: SessionSettings,
    truth: Truth,
    profile: AcceptanceProfile,
    *,
    plugins: PowerPluginManager | None = None,
    progress: Progress | None = None,
) -> Session:
    """Open a session whose drafts follow the profile; every report of it has an event ``synthetic_acceptance``.

    Args:
        settings: What to open; drafts wider than the profile are refused.
        truth: Continuations of the prompts that will run, each at least as long as what will be generated; may be
            filled later. A prompt that it lacks raises ``StateError``.
        profile: How often drafts are right.
        plugins: As in ``open_session``.
        progress: As in ``open_session``.

    Raises:
        ConfigError: the profile has fewer positions than K; otherwise as ``open_session``.
    """
    chosen = plugins or load_plugins()
    wrapped = chosen.with_drafters(
        lambda context, inner: SyntheticDrafter(inner, truth, profile, context.target_model.info.n_vocab)
    )
    session = open_session(settings, plugins=wrapped, progress=progress)
    if session.plan.draft_max > len(profile.probabilities):
        session.close()
        raise _profile_error(
            f"has {len(profile.probabilities)} positions, expected at least draft_max ({session.plan.draft_max})"
        )
    event = {"event": EVENT, "round": 0, "probabilities": list(profile.probabilities), "seed": profile.seed}
    session.plan = attrs.evolve(session.plan, events=(*session.plan.events, event))
    return session


class SyntheticDrafter:
    """Lets a drafter do all its work, then proposes as many drafts as were asked for: right ones, then wrong ones.

    Right and wrong are drawn by position of the text, so a round that is taken back and run again is the same round.
    """

    def __init__(self, inner: Drafter, truth: Truth, profile: AcceptanceProfile, n_vocab: int) -> None:
        self._inner = inner
        self._truth = truth
        self._profile = profile
        self._n_vocab = n_vocab
        self._prompt_tokens = 0
        self._right: list[TokenId] = []
        self._wrong: list[TokenId] = []
        self._right_drafts: list[int] = []
        self._inner_drafts = 0

    @property
    def compute_ns(self) -> int:
        """Nanoseconds inside the backend's compute, where the drafter tells."""
        return int(getattr(self._inner, "compute_ns", 0))

    def begin(self, prompt: Sequence[TokenId], *, seq_id: SeqId = 0) -> None:
        """Look up what follows the prompt and draw which drafts will be right."""
        continuation = self._truth.get(tuple(prompt))
        if continuation is None:
            raise StateError(
                f"plain decoding of this prompt ({len(prompt)} tokens) is not known",
                state="unknown prompt",
                operation="begin",
                hint="decode it with `off` first: synthetic drafts need the right tokens",
            )
        self._prompt_tokens = len(prompt)
        self._right = list(continuation)
        self._wrong = [(token + 1) % self._n_vocab for token in continuation]
        self._right_drafts = self._profile.right_drafts(prompt, len(continuation)).tolist()
        self._inner.begin(prompt, seq_id=seq_id)

    def process(self, rows: CommittedRows) -> None:
        """Pass the rows on."""
        self._inner.process(rows)

    def propose(self, request: DraftRequest) -> Proposal:
        """Let the drafter propose, then replace its tokens; there are always as many as asked for and known."""
        self._inner_drafts = len(self._inner.propose(request).tokens)
        return Proposal(seq_id=request.seq_id, tokens=self._drafts(request.n_past, request.limit_tokens))

    def open_rounds(self, target: TargetContext) -> WholeRounds | None:
        """Return the drafter's whole rounds with the same drafts, None when it has none."""
        rounds = offered_rounds(self._inner, target)
        if rounds is None:
            return None
        sheet = rounds.sheet
        return RoundsAfter(
            rounds, lambda seq_id: rounds.replace_drafts(self._drafts(sheet.first_pos, sheet.max_tokens))
        )

    def _drafts(self, anchor_pos: int, most: int) -> list[TokenId]:
        """Return right drafts, then wrong ones, as many as asked for and known."""
        at = anchor_pos - self._prompt_tokens + 1
        end = at + most
        right = min(end, at + self._right_drafts[at] if at < len(self._right) else at)
        return self._right[at:right] + self._wrong[right:end]

    def accept(self, accepted_tokens: int, *, seq_id: SeqId = 0) -> None:
        """Pass the outcome on, as far as the drafter had drafts of its own."""
        if self._inner_drafts:
            self._inner.accept(min(accepted_tokens, self._inner_drafts), seq_id=seq_id)

    def checkpoint(self, *, seq_id: SeqId = 0) -> DrafterCheckpoint:
        """The drafter's checkpoint."""
        return self._inner.checkpoint(seq_id=seq_id)

    def restore(self, checkpoint: DrafterCheckpoint, *, seq_id: SeqId = 0) -> None:
        """Restore the drafter."""
        self._inner.restore(checkpoint, seq_id=seq_id)

    def close(self) -> None:
        """Close the drafter."""
        self._inner.close()


def _is_list(text: str) -> bool:
    return bool(text) and all(character in "0123456789.,+-eE \t" for character in text) and not Path(text).is_file()


def _read_profile(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise _profile_error(
            f"is {str(path)!r}, neither numbers between commas nor a file of them ({error})"
        ) from error
    return " ".join(line.partition("#")[0] for line in lines)


def _profile_error(problem: str) -> ConfigError:
    return ConfigError(
        f"the acceptance profile {problem}",
        field="synthetic_acceptance",
        hint="write one probability per position, like `--synthetic-acceptance 0.9,0.8,0.7`",
    )
