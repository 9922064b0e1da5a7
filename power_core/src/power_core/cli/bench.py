"""``power bench``: plan from the command line, run, table; the report goes to a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from power_core.bench.files import to_json, write_report
from power_core.bench.plan import BenchPlan, Gates, Prompt, Variant, make_variants
from power_core.bench.prompts import read_prompts
from power_core.bench.runner import run_bench
from power_core.bench.synthetic import AcceptanceProfile, parse_profile
from power_core.cli.bench_view import format_bench
from power_core.cli.console import EXIT_ERROR, EXIT_OK, usage_error, write_out
from power_core.cli.interrupt import cancel_on_interrupt
from power_core.cli.progress import ProgressView
from power_core.cli.prompt_source import read_prompt
from power_core.config import resolve
from power_core.errors import Cancelled
from power_core.plugins.manager import PowerPluginManager, load_plugins
from power_core.settings import SessionSettings

STANDARD_OUTPUT = "-"


@attrs.frozen(kw_only=True)
class BenchOrder:
    """What the command line asked for; lists are as they were written."""

    flags: Mapping[str, Any]
    config: Path | None
    spec: str | None
    draft: str | None
    draft_max: str | None
    scheduler: str | None
    prompt: str | None
    prompt_file: Path | None
    prompts: Path | None
    chat: bool
    repeats: int
    warmups: int
    sessions: str | None
    gates: Mapping[str, float | None]
    synthetic_acceptance: str | None
    synthetic_seed: int
    row_costs: bool
    json: Path | None


def run_bench_order(order: BenchOrder) -> int:
    """Run the benchmark and print its table, or with ``--json -`` its report; 1 when a gate failed.

    Raises:
        PowerError: nothing was written.
        KeyboardInterrupt: it was interrupted; there is no report of a part.
    """
    _require_folder(order.json)
    plugins = load_plugins()
    plan = make_plan(order, plugins)
    try:
        with ProgressView(live=False) as progress:
            report = run_bench(plan, plugins=plugins, progress=progress.update, guard=cancel_on_interrupt)
    except Cancelled as error:
        raise KeyboardInterrupt from error
    if order.json is not None and str(order.json) == STANDARD_OUTPUT:
        write_out(to_json(report))
    else:
        if order.json is not None:
            write_report(report, order.json)
        write_out(format_bench(report))
    return EXIT_OK if report.passed else EXIT_ERROR


def make_plan(order: BenchOrder, plugins: PowerPluginManager) -> BenchPlan:
    """Return the plan; where a list was not given, the file's single value is the list.

    Raises:
        ConfigError: what was asked for contradicts itself.
    """
    configuration = resolve(order.flags, order.config)
    base = configuration.session
    sessions: Any = order.sessions or ("in-turn" if base.gpu_layers else "together")
    return BenchPlan(
        variants=_variants(order, base, plugins),
        prompts=_prompts(order),
        request=configuration.request,
        repeats=order.repeats,
        warmups=order.warmups,
        chat=order.chat,
        sessions=sessions,
        gates=Gates(**order.gates),
        profile=_profile(order),
        row_costs=order.row_costs,
    )


def _variants(order: BenchOrder, base: SessionSettings, plugins: PowerPluginManager) -> tuple[Variant, ...]:
    drafts, everywhere = _drafts(order.draft)
    if everywhere is not None:
        base = attrs.evolve(base, draft=everywhere)
    draft_maxes = _numbers("draft-max", order.draft_max)
    if not draft_maxes and base.draft_max is not None:
        draft_maxes = [base.draft_max]
    return make_variants(
        base,
        plugins,
        specs=_words(order.spec) or [base.spec],
        draft_maxes=draft_maxes,
        schedulers=_words(order.scheduler),
        drafts=drafts,
    )


def _drafts(text: str | None) -> tuple[dict[str, Path], Path | None]:
    """Split ``STRATEGY=FILE,...`` or a single ``FILE``."""
    words = _words(text)
    if len(words) == 1 and "=" not in words[0]:
        return {}, Path(words[0])
    drafts: dict[str, Path] = {}
    for word in words:
        strategy, equals, file = word.partition("=")
        if not equals or not strategy or not file or strategy in drafts:
            message = f"--draft is {text!r}, expected one FILE, or STRATEGY=FILE,STRATEGY=FILE with each strategy once"
            raise usage_error(message, command="bench", field="draft")
        drafts[strategy] = Path(file)
    return drafts, None


def _prompts(order: BenchOrder) -> tuple[Prompt, ...]:
    given = {"--prompt": order.prompt, "--prompt-file": order.prompt_file, "--prompts": order.prompts}
    found = [flag for flag, value in given.items() if value is not None]
    if len(found) != 1:
        message = "expected exactly one of --prompt TEXT, --prompt-file FILE and --prompts FILE, got "
        raise usage_error(message + (" and ".join(found) or "none"), command="bench", field="prompts")
    if order.prompts is not None:
        return read_prompts(order.prompts)
    text = read_prompt(order.prompt, order.prompt_file, None)
    return (Prompt(name="prompt" if order.prompt_file is None else order.prompt_file.name, text=text),)


def _profile(order: BenchOrder) -> AcceptanceProfile | None:
    if order.synthetic_acceptance is None:
        return None
    return parse_profile(order.synthetic_acceptance, seed=order.synthetic_seed)


def _require_folder(file: Path | None) -> None:
    """Refuse a report that could not be written, before minutes are spent on it."""
    if file is None or str(file) == STANDARD_OUTPUT:
        return
    folder = file.absolute().parent
    if file.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        message = f"--json is {str(file)!r}, expected a file in a folder that exists and can be written, or -"
        raise usage_error(message, command="bench", field="json")


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in text.split(",")] if text is not None else []


def _numbers(flag: str, text: str | None) -> list[int]:
    try:
        return [int(word) for word in _words(text)]
    except ValueError as error:
        message = f"--{flag} is {text!r}, expected whole numbers between commas"
        raise usage_error(message, command="bench", field=flag) from error
