"""The one-screen report that follows a generated text; ``power_core.report`` defines its figures."""

from __future__ import annotations

from typing import Any

from power_core.cli.console import fold_line
from power_core.report import DraftRecord, GenerationResult, Report

MAX_EVENTS = 8
MAX_EVENT_CHARACTERS = 160


def format_report(result: GenerationResult) -> str:
    """Return the report as lines of ``name  value``; at most ``MAX_EVENTS`` events, long ones cut."""
    report = result.report
    rows = [
        ("strategy", report.strategy),
        ("guarantee", _guarantee(report)),
        ("rounds", f"{report.rounds} ({report.target_calls} target calls)"),
        ("drafted", f"{report.drafted_tokens} tokens"),
        ("accepted", f"{report.accepted_tokens} tokens"),
        ("emitted", f"{report.emitted_tokens} tokens"),
        ("acceptance", f"{report.acceptance_rate:.1%}" if report.drafted_tokens else "nothing was drafted"),
        ("tokens per target pass", f"{report.tokens_per_target_pass:.2f}"),
        ("replays", _replays(report)),
        ("speed", f"{report.tokens_per_second:.1f} tok/s"),
        ("time", _times(report)),
        ("finish", result.finish_reason),
    ]
    if report.guarded_rows:
        rows.append(("decided again", f"{report.guarded_rows} near-ties ({report.guard_calls} target calls)"))
    if report.decisions:
        rows.append(("scheduler", _scheduling(report)))
    if facts := report.settings.get("drafter"):
        rows.append(("drafter", fold_line(", ".join(f"{name} {value}" for name, value in facts.items()))))
    if report.draft is not None:
        rows += _draft_rows(report.draft)
    lines = [f"{name:<24}{value}" for name, value in rows]
    return "\n".join([*lines, *_event_lines(report.events)]) + "\n"


def _guarantee(report: Report) -> str:
    if report.probe is None:
        return report.guarantee
    depths = ", ".join(str(depth) for depth in report.probe.depths_tokens)
    return f"{report.guarantee}, measured at {depths} tokens"


def _scheduling(report: Report) -> str:
    widths = report.draft_limit_histogram or {0: 0}
    used = f"{min(widths)} to {max(widths)} drafts a round, mostly {max(widths, key=lambda width: widths[width])}"
    changes = len(report.decisions) + report.decisions_dropped
    return f"{report.settings.get('scheduler', 'another')}, {used}; decisions: {changes}"


def _draft_rows(draft: DraftRecord) -> list[tuple[str, str]]:
    admitted = "no, nothing vouches for this file"
    if draft.admitted:
        admitted = f"yes, from {draft.source}, revision {draft.revision}, license {draft.license}"
    return [
        ("draft", fold_line(f"{draft.file}, {draft.kind}, SHA-256 {draft.sha256}")),
        ("draft admitted", fold_line(admitted)),
    ]


def _replays(report: Report) -> str:
    copied = f" ({report.copied_bytes} bytes copied)" if report.copied_bytes else ""
    return f"{report.replays}{copied}"


def _times(report: Report) -> str:
    times = report.timings_ns
    parts = {name: getattr(times, name) for name in ("load", "prefill", "draft", "verify", "sample", "total")}
    return ", ".join(f"{name} {value / 1e6:.1f} ms" for name, value in parts.items())


def _event_lines(events: list[dict[str, Any]]) -> list[str]:
    lines = [f"{'event':<24}{_event_text(event)}" for event in events[:MAX_EVENTS]]
    if len(events) > MAX_EVENTS:
        lines.append(f"{'event':<24}{len(events) - MAX_EVENTS} more, see --json")
    return lines


def _event_text(event: dict[str, Any]) -> str:
    facts = [f"{name} {_plain(value)}" for name, value in event.items() if name not in ("event", "round", "detail")]
    place = [f"round {event['round']}"] if event.get("round") else []
    detail = [str(event["detail"])] if "detail" in event else []
    name, details = str(event["event"]), ", ".join([*place, *facts, *detail])
    line = fold_line(f"{name}: {details}" if details else name)
    return line if len(line) <= MAX_EVENT_CHARACTERS else line[:MAX_EVENT_CHARACTERS] + "... see --json"


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name}: {reason}" for name, reason in value.items()) or "nothing"
    return str(value)
