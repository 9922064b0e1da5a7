"""Runs a benchmark: sessions, warm-up, then pairs in alternating order; one process, one request at a time."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from power_core.artifacts.model_files import ModelFiles, scan_model
from power_core.bench.gates import judge
from power_core.bench.identities import describe_environment, describe_sampling, identify_target, load_averages
from power_core.bench.measures import Guard, no_guard
from power_core.bench.pairs import Outcome, PairedRuns
from power_core.bench.plan import BenchPlan, Variant
from power_core.bench.records import BenchReport, Environment, TargetRecord, Workload
from power_core.bench.summary import summarise
from power_core.bench.synthetic import Truth, open_synthetic_session
from power_core.bench.validity import require_valid_report
from power_core.default_models import with_default_models
from power_core.opening import Progress, open_session
from power_core.plugins.manager import PowerPluginManager, load_plugins
from power_core.session import Session


def run_bench(
    plan: BenchPlan,
    *,
    plugins: PowerPluginManager | None = None,
    progress: Progress | None = None,
    guard: Guard = no_guard,
) -> BenchReport:
    """Run a plan and return its report.

    Args:
        plan: What to run.
        plugins: Loaded plugins; None loads the installed ones.
        progress: As in ``open_session``, with two more phases: ``warm-up`` and ``bench`` count runs, between them.
        guard: Surrounds every run; see ``Guard``.

    Raises:
        Cancelled: a run was cancelled; there is no report of a part.
        BenchError: a run or its outcome proves nothing; ``rule`` names what it breaks.
        ConfigError: a prompt or the profile does not fit; otherwise as ``open_session``.
    """
    plugins = plugins or load_plugins()
    files = _target_files(plan, plugins)
    target = identify_target(files, progress)
    load_before = load_averages()

    def open_variant(variant: Variant, truth: Truth) -> Session:
        if plan.profile is None or variant.plain:
            return open_session(variant.settings, plugins=plugins, progress=progress)
        return open_synthetic_session(variant.settings, truth, plan.profile, plugins=plugins, progress=progress)

    outcome = PairedRuns(plan, open_variant, progress=progress, guard=guard).run()
    files.require_unchanged()
    return make_report(plan, outcome, target, describe_environment(plugins, load_before))


def make_report(plan: BenchPlan, outcome: Outcome, target: TargetRecord, environment: Environment) -> BenchReport:
    """Return the report of a finished run, checked by the rules that hold for reports read from files too.

    Raises:
        BenchError: see ``require_valid_report``.
    """
    summaries = summarise(outcome.samples)
    gates = judge(plan.gates, summaries, len(plan.prompts))
    report = BenchReport(
        recorded_at=datetime.now(UTC).isoformat(timespec="seconds"),
        synthetic=plan.profile,
        workload=Workload(
            max_tokens=plan.request.max_tokens,
            repeats=plan.repeats,
            warmups=plan.warmups,
            chat=plan.chat,
            sessions=plan.sessions,
            sampling=describe_sampling(plan.request.sampling),
            logprobs=plan.request.logprobs,
        ),
        required=plan.gates,
        target=target,
        prompts=outcome.prompts,
        variants=outcome.variants,
        environment=environment,
        samples=outcome.samples,
        row_costs=outcome.row_costs,
        summaries=summaries,
        gates=gates,
        passed=all(gate.passed for gate in gates),
    )
    require_valid_report(report)
    return report


def _target_files(plan: BenchPlan, plugins: PowerPluginManager) -> ModelFiles:
    settings = plan.plain.settings
    path = settings.model or with_default_models(settings, plugins, []).model
    assert path is not None, "with_default_models"
    return scan_model(Path(path))
