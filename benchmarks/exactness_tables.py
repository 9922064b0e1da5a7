"""The tables of docs/exactness.md that say how many outputs were equal, where, and under which drafter."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from typing import Any

import attrs
from doc_sections import table


@attrs.frozen(kw_only=True)
class Output:
    """One speculative output beside its plain one, and the cell it belongs to."""

    target: str
    arithmetic: str
    threads: str
    sampling: str
    drafter: str
    prompt: str
    found: dict[str, Any]

    @property
    def equal(self) -> bool:
        return self.found["first_difference"] is None


def outputs(results: dict[str, Any]) -> Iterator[Output]:
    """Yield everything that was decoded."""
    for name, drafters in results["cells"].items():
        target, arithmetic, threads, sampling = name.split(", ")
        for drafter, outcomes in drafters.items():
            for prompt, found in outcomes.items():
                yield Output(
                    target=target,
                    arithmetic=arithmetic,
                    threads=threads.split()[0],
                    sampling=sampling,
                    drafter=drafter,
                    prompt=prompt,
                    found=found,
                )


def tables(results: dict[str, Any]) -> str:
    """Return the page's section: what was decoded in all, by target, and by drafter."""
    found = list(outputs(results))
    exact = [output for output in found if output.arithmetic == "exact"]
    crossed = sum(output.found["end"] > 512 for output in exact)
    guarantees = ", ".join(sorted({output.found["guarantee"] for output in exact}))
    note = (
        f"At most {results['tokens']} tokens an output. Under exact arithmetic {_equal(exact)} outputs equal plain "
        f"decoding; {crossed} of them end beyond 512 tokens. Guarantees in their reports: {guarantees or 'none'}."
    )
    return "\n\n".join([note, _by_target(found), _by_drafter(found)])


def _by_target(found: list[Output]) -> str:
    lines = []
    for line in dict.fromkeys((output.target, output.threads, output.sampling) for output in found):
        of_line = [output for output in found if (output.target, output.threads, output.sampling) == line]
        lines.append([*line, *_figures(of_line), _where(_of(of_line, "fast"))])
    header = ["target", "threads", "sampling", "exact: prompts", "equal", "fast: prompts", "equal"]
    return table([*header, "first differences under fast"], lines)


def _by_drafter(found: list[Output]) -> str:
    lines = []
    for target, drafter in dict.fromkeys((output.target.split()[0], output.drafter) for output in found):
        of_line = [output for output in found if (output.target.split()[0], output.drafter) == (target, drafter)]
        accepted, drafted = (sum(output.found[name] for output in of_line) for name in ("accepted", "drafted"))
        lines.append([target, drafter, *_figures(of_line), f"{accepted:,} of {drafted:,}"])
    header = ["target", "drafter", "exact: prompts", "equal", "fast: prompts", "equal", "accepted drafts"]
    return table(header, lines)


def _figures(found: list[Output]) -> list[str]:
    figures = []
    for arithmetic in ("exact", "fast"):
        chosen = _of(found, arithmetic)
        figures += [str(len({output.prompt for output in chosen})), _equal(chosen)]
    return figures


def _of(found: Iterable[Output], arithmetic: str) -> list[Output]:
    return [output for output in found if output.arithmetic == arithmetic]


def _equal(found: list[Output]) -> str:
    return f"{sum(output.equal for output in found)} of {len(found)}" if found else "not run"


def _where(found: list[Output]) -> str:
    places = [output.found["first_difference"] for output in found if not output.equal]
    return f"from {min(places)}, median {statistics.median(places):.0f}" if places else "-"
