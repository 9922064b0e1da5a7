"""The checks of a device, each a function of a ``Run`` that returns plain values for the report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs

from power_core import open_session
from power_core.bench.synthetic import AcceptanceProfile, open_synthetic_session, record_truth
from power_core.errors import PowerError
from power_core.exactness.probe import measure_rows, probe_tokens
from power_core.settings import SessionSettings
from power_core.target import ContextSettings, ModelSettings
from power_core.testing.drafts import build_tiny_draft
from power_core.testing.models import build_tiny_target
from power_core.tokens import SequenceRows
from power_native.model import NativeModel
from power_native.quantize import quantize

STRATEGIES = ("mtp", "dflash", "dflash2", "dspark", "prompt-lookup", "ngram-context")
BLOCK_KINDS = ("dflash", "dflash2", "dspark")
WEIGHT_TYPES = ("F16", "Q8_0", "Q4_K_M", "Q6_K")
MOST_ROWS = 16
PARITY_DRAFTS = 7
PROMPT = tuple(7919 * (place + 1) % 500 for place in range(48))


@attrs.frozen(kw_only=True)
class Run:
    """What every section works with.

    Attributes:
        folder: For models that are made on the spot.
        gpu: A GPU is there and is used; otherwise everything runs on the CPU, with exact arithmetic.
        small: The dry run: small shapes, few repetitions.
        target: A trained target (the zoo's), None: tiny random-weight models stand in.
        drafts: Its drafts by kind.
    """

    folder: Path
    gpu: bool
    small: bool
    target: Path | None = None
    drafts: dict[str, Path] = attrs.field(factory=dict)

    @property
    def threads(self) -> int:
        """Threads of the CPU; one for tiny models, whose rows are not worth waking others for."""
        return 1 if self.small else 0

    @property
    def placement(self) -> dict[str, Any]:
        """Settings of a session: all layers on the GPU, or exact arithmetic on the CPU."""
        if self.gpu:
            return {"gpu_layers": -1, "arithmetic": "fast", "threads": self.threads}
        return {"gpu_layers": 0, "arithmetic": "exact", "threads": self.threads}


def strategies_parity(run: Run) -> dict[str, Any]:
    """Greedy output of every strategy, in both verification shapes, against plain decoding with the same settings.

    Each drafter works in full; which of its drafts are right follows a profile, so that every run has accepted and
    rejected ones.
    """
    target, drafts = _parity_models(run)
    tokens = 24 if run.small else 128
    common = SessionSettings(model=target, ctx=512, snapshots=PARITY_DRAFTS, draft_max=PARITY_DRAFTS, **run.placement)
    with open_session(common, spec="off", draft_max=None) as plain:
        truth = record_truth(plain, [PROMPT], tokens + PARITY_DRAFTS + 1)
    expected = tuple(truth[PROMPT][:tokens])
    profile = AcceptanceProfile(probabilities=(0.8,) * PARITY_DRAFTS)
    rows = []
    for spec in STRATEGIES:
        for shape in ("early-stop", "fixed"):
            settings = attrs.evolve(common, spec=spec, draft=drafts.get(spec), verify_shape=shape)
            with open_synthetic_session(settings, truth, profile) as session:
                result = session.generate(PROMPT, max_tokens=tokens).result()
            rows.append(
                {
                    "strategy": spec,
                    "verify_shape": shape,
                    "equal_tokens": _equal_prefix(expected, result.tokens),
                    "tokens": len(expected),
                    "parity": result.tokens == expected,
                    "guarantee": result.report.guarantee,
                    "acceptance_rate": result.report.acceptance_rate,
                    "tokens_per_target_pass": result.report.tokens_per_target_pass,
                }
            )
    return {"arithmetic": run.placement["arithmetic"], "acceptance": profile.description, "rows": rows}


def exactness_table(run: Run) -> dict[str, Any]:
    """Rows 1..16 against single rows, at several depths and weight types: largest logit difference, equal choices."""
    source = run.target or build_tiny_target(run.folder / "exactness.gguf", kind="attention", dtype="F32")
    depths = (5, 40) if run.small else (9, 255, 700)
    table = []
    for type_name in WEIGHT_TYPES:
        path = run.folder / f"exactness-{type_name}.gguf"
        quantize(source, path, type_name, pure=type_name != "Q4_K_M")
        model_settings = ModelSettings(
            path=path, gpu_layers=run.placement["gpu_layers"], arithmetic=run.placement["arithmetic"]
        )
        model = NativeModel.open(model_settings)
        try:
            table.append({"type": type_name, "widths": _compare_widths(run, model, depths)})
        finally:
            model.close()
        path.unlink()
    return {"arithmetic": run.placement["arithmetic"], "depths_tokens": list(depths), "table": table}


def contract_kit(run: Run) -> dict[str, Any]:
    """The kit's native clauses, for one plugin with files and one that runs on the target alone."""
    results = {}
    for subject in ("power-mtp",) if run.small else ("power-mtp", "power-dspark"):
        report = run.folder / f"kit-{subject}.json"
        command = [sys.executable, "-m", "power_contract.cli", "run", subject, "--profile", "ci", "-k", "NATIVE"]
        done = subprocess.run(
            [*command, "--report", str(report)], capture_output=True, text=True, check=False, timeout=120
        )
        clauses = json.loads(report.read_text(encoding="utf-8"))["clauses"] if report.is_file() else {}
        results[subject] = {"status": done.returncode, "clauses": len(clauses), "output": done.stdout[-2000:]}
    return results


def _compare_widths(run: Run, model: NativeModel, depths: tuple[int, ...]) -> list[dict[str, Any]]:
    n_vocab = model.info.n_vocab
    snapshots = MOST_ROWS - 1 if model.info.recurrent else 0
    settings = ContextSettings(
        ctx_tokens=max(depths) + 64, batch_rows=256, snapshots=snapshots, output_rows=MOST_ROWS, threads=run.threads
    )
    widths = list(range(2, MOST_ROWS + 1))
    largest = dict.fromkeys(widths, 0.0)
    same_choice = dict.fromkeys(widths, True)
    for depth in depths:
        context = model.open_context(settings)
        try:
            tokens = probe_tokens(depth + MOST_ROWS, n_vocab)
            context.evaluate((SequenceRows(start_pos=0, tokens=tokens[:depth], logits="none"),), kernels="prefill")
            for cell in measure_rows(context, tokens[depth:], widths):
                largest[cell.rows] = max(largest[cell.rows], cell.difference)
            singles = _choices(model, settings, tokens, depth, 1)
            for width in widths:
                same_choice[width] &= _choices(model, settings, tokens, depth, width) == singles[:width]
        finally:
            context.close()
    return [
        {"rows": width, "largest_difference": largest[width], "token_parity": same_choice[width]} for width in widths
    ]


def _choices(model: NativeModel, settings: ContextSettings, tokens: list[int], depth: int, width: int) -> list[int]:
    """Greedy choices after each of ``width`` rows evaluated at once, or of 16 rows one by one."""
    context = model.open_context(settings)
    try:
        context.evaluate((SequenceRows(start_pos=0, tokens=tokens[:depth], logits="none"),), kernels="prefill")
        choices = []
        for at in range(depth, depth + (MOST_ROWS if width == 1 else width), width):
            context.evaluate((SequenceRows(start_pos=at, tokens=tokens[at : at + width]),), kernels="decode")
            choices += [context.argmax(row) for row in range(width)]
        return choices
    finally:
        context.close()


def _parity_models(run: Run) -> tuple[Path, dict[str, Path]]:
    if run.target is not None:
        return run.target, run.drafts
    target = build_tiny_target(run.folder / "parity.gguf", kind="hybrid", seed=3)
    drafts = {kind: build_tiny_draft(run.folder / f"parity-{kind}.gguf", kind=kind, seed=2) for kind in BLOCK_KINDS}  # type: ignore[arg-type]
    return target, drafts


def _equal_prefix(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


SectionError = (PowerError, OSError, subprocess.SubprocessError, ValueError, KeyError)
"""What a section may fail with; the others still run."""
