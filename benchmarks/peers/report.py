"""From samples to figures and tables. The same record always gives the same text."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import attrs
from doc_sections import table

from peers.records import POWER, ContestRecord, PeersRecord, Sample, SubjectRecord
from power_core.bench.measures import decode_rate
from power_core.bench.plan import FEWEST_PAIRS
from power_core.bench.statistics import Interval, median_interval


@attrs.frozen(kw_only=True)
class Standing:
    """One of Power's subjects against a peer's best one, over the prompts that everybody answered in full length.

    Attributes:
        power_rate: Median decode rate in tokens per second.
        peer_rate: The same of the peer's best subject.
        ratio: Median over prompts and passes of the two decode rates' ratio.
        interval: Of that median; None with too few pairs.
        least: Smallest ratio of a pair.
        most: Largest ratio of a pair.
        of_totals: Ratio of the rates over all prompts together: tokens over time.
        goal: See ``SubjectRecord``.
        end_to_end: As ``ratio``, from the call to the whole answer, prompt and transport included.
    """

    power: str
    peer: str
    power_rate: float
    peer_rate: float
    pairs: int
    ratio: float
    interval: Interval | None
    least: float
    most: float
    of_totals: float
    end_to_end: float
    goal: float | None

    @property
    def verdict(self) -> str:
        """Whether the interval of the ratio reaches the goal; with too few pairs for one, whether the ratio does."""
        if self.goal is None:
            return "-"
        reached = (self.ratio if self.interval is None else self.interval.high) >= self.goal
        return f"{self.goal:.2f}: {'reached' if reached else '**missed**'}"


class Figures:
    """The figures of one contest.

    Attributes:
        left_out: Prompts that somebody ended before the full length; no rate is taken from them.
    """

    def __init__(self, contest: ContestRecord) -> None:
        self.contest = contest
        self.left_out = tuple(
            dict.fromkeys(sample.prompt for sample in contest.samples if sample.tokens < contest.max_tokens)
        )

    def full(self, subject: str) -> list[Sample]:
        """The samples of a subject that rates are taken from, by prompt and pass."""
        mine = [sample for sample in self.contest.samples if sample.subject == subject]
        kept = [sample for sample in mine if sample.prompt not in self.left_out]
        return sorted(kept, key=lambda sample: (sample.prompt, sample.repeat))

    def best(self, side: str) -> SubjectRecord:
        """The subject of a side with the highest rate over all prompts together."""
        return max(self.contest.side(side), key=lambda subject: _total_rate(self.full(subject.name)))

    def standing(self, power: SubjectRecord, peer: str) -> Standing:
        """Compare one of Power's subjects with the best of a peer."""
        rival = self.best(peer)
        mine, theirs = self.full(power.name), self.full(rival.name)
        ratios = [theirs_.decode_ns / mine_.decode_ns for mine_, theirs_ in zip(mine, theirs, strict=True)]
        groups: dict[str, list[float]] = {}
        for sample, ratio in zip(mine, ratios, strict=True):
            groups.setdefault(sample.prompt, []).append(ratio)
        return Standing(
            power=power.name,
            peer=rival.name,
            power_rate=median(_rates(mine)),
            peer_rate=median(_rates(theirs)),
            pairs=len(ratios),
            ratio=median(ratios),
            interval=median_interval(list(groups.values())) if len(ratios) >= FEWEST_PAIRS else None,
            least=min(ratios),
            most=max(ratios),
            of_totals=_total_rate(mine) / _total_rate(theirs),
            goal=rival.goal,
            end_to_end=median(b.total_ns / a.total_ns for a, b in zip(mine, theirs, strict=True)),
        )

    def standings(self) -> list[Standing]:
        """Power's first subject against every peer, the others against those of their division.

        None when no prompt was answered in full length.
        """
        first = self.contest.subjects[0]
        if not self.full(first.name):
            return []
        return [
            self.standing(power, peer)
            for peer in self.contest.peers
            for power in self.contest.side(POWER)
            if power == first or power.division == self.best(peer).division
        ]

    def first_differences(self, subject: str) -> dict[str, int | None]:
        """By prompt the first token that was not the reference's, in any pass."""
        places: dict[str, int | None] = {}
        for sample in self.contest.samples:
            if sample.subject == subject:
                known = [place for place in (places.get(sample.prompt), sample.first_difference) if place is not None]
                places[sample.prompt] = min(known, default=None)
        return places


def _rates(samples: Sequence[Sample]) -> list[float]:
    return [decode_rate(sample.tokens, 0, sample.decode_ns) for sample in samples]


def _total_rate(samples: Sequence[Sample]) -> float:
    total_ns = sum(sample.decode_ns for sample in samples)
    return sum(sample.tokens - 1 for sample in samples) * 1e9 / total_ns if total_ns else 0.0


def report(record: PeersRecord) -> str:
    """Return the section of docs/performance.md."""
    figures = [Figures(contest) for contest in record.contests]
    parts = (_conditions(record), _ratio_table(figures), _subject_table(figures), _left_out(figures))
    return "\n\n".join(part for part in parts if part)


def _conditions(record: PeersRecord) -> str:
    environment = record.environment
    load = f"{environment['load_before'][0]:.2f}" if environment["load_before"] else "unknown"
    peers = (subject for contest in record.contests for subject in contest.subjects if subject.goal is not None)
    versions = sorted({f"{peer.side} {peer.facts['version']}" for peer in peers})
    return (
        f"Recorded {record.recorded_at} on {environment['cpu']}, {record.threads} threads, prompts in chunks of "
        f"{record.batch_tokens} tokens, load average before the first run {load}. "
        f"Peers: {', '.join(versions) or 'none'}."
    )


def _ratio_table(figures: Sequence[Figures]) -> str:
    columns = "contest, Power, tok/s, peer, tok/s, Power / peer, 95%, pairs, of totals, end to end, goal"
    rows = []
    for each in figures:
        for standing in each.standings():
            interval = standing.interval
            rows.append(
                [
                    each.contest.name,
                    standing.power,
                    f"{standing.power_rate:.1f}",
                    standing.peer,
                    f"{standing.peer_rate:.1f}",
                    f"**{standing.ratio:.3f}**",
                    "-" if interval is None else f"{interval.low:.3f} to {interval.high:.3f}",
                    f"{standing.pairs}: {standing.least:.2f} to {standing.most:.2f}",
                    f"{standing.of_totals:.3f}",
                    f"{standing.end_to_end:.3f}",
                    standing.verdict,
                ]
            )
    return table(columns.split(", "), rows)


def _subject_table(figures: Sequence[Figures]) -> str:
    header = ["contest", "subject", "tok/s", "least to most", "drafts accepted", "outputs as Power's", "differ from"]
    rows = []
    for each in figures:
        for subject in each.contest.subjects:
            samples = each.full(subject.name)
            rates = _rates(samples) or [0.0]
            rows.append(
                [
                    each.contest.name,
                    subject.name,
                    f"{median(rates):.1f}",
                    f"{min(rates):.1f} to {max(rates):.1f}",
                    _acceptance(samples),
                    *_difference(each.first_differences(subject.name)),
                ]
            )
    return table(header, rows)


def _acceptance(samples: Sequence[Sample]) -> str:
    drafted = sum(sample.drafted_tokens for sample in samples)
    accepted = sum(sample.accepted_tokens for sample in samples)
    return f"{accepted / drafted:.1%} of {drafted:,}" if drafted else "-"


def _difference(places: dict[str, int | None]) -> list[str]:
    found = sorted(place for place in places.values() if place is not None)
    where = f"token {found[0]}, median {median(found):.0f}" if found else "-"
    return [f"{len(places) - len(found)} of {len(places)}", where]


def _left_out(figures: Sequence[Figures]) -> str:
    lines = [
        f"{each.contest.name}: {len(each.left_out)} prompts that somebody ended early are left out of the rates."
        for each in figures
        if each.left_out
    ]
    return "\n".join(lines)
