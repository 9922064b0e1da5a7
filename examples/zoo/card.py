"""Writes the model card from what the recipe and the report measured.

    python examples/zoo/card.py --work FOLDER

Reads the curves and checks of the work folder and results/report.json; writes CARD.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

from power_zoo import model_path

HERE = Path(__file__).resolve().parent
TRAININGS = ("target", "mtp", "dflash", "dspark", "dflash2")
FILES = ("target", "dflash", "dflash2", "dspark")


def main() -> None:
    """Write the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of train.py")
    work: Path = parser.parse_args().work
    parts = [
        "# Model card\n\nMade by `card.py` from measured values. README.md says what the models are.\n",
        _files(),
        _trainings(work),
        _checks(_read(work / "checks.json")),
        "## Drafting\n\n" + (HERE / "results" / "report.md").read_text(encoding="utf-8"),
    ]
    path = HERE / "CARD.md"
    path.write_text("\n".join(parts), encoding="utf-8")
    print(path)


def _files() -> str:
    lines = ["## Files\n", "| file | bytes | SHA-256 |", "| --- | --- | --- |"]
    for name in FILES:
        content = model_path(name).read_bytes()
        lines.append(f"| {name}.gguf | {len(content):,} | `{hashlib.sha256(content).hexdigest()}` |")
    return "\n".join(lines) + "\n"


def _trainings(work: Path) -> str:
    lines = ["## Training\n", "| model | CPU minutes | steps | validation |", "| --- | --- | --- | --- |"]
    for name in TRAININGS:
        last = _read(work / f"{name}.curve.json")[-1]
        held = {key: value for key, value in last.items() if key.startswith("validation")}
        shown = ", ".join(f"{key.removeprefix('validation_')} {value:.3f}" for key, value in held.items())
        lines.append(f"| {name} | {last['cpu_seconds'] / 60:.0f} | {last['steps']} | {shown} |")
    baseline = _read(work / "baseline.json")
    lines += [
        "",
        f"The target's validation loss is in nats per token; n-grams of up to 4 tokens of the same training text reach "
        f"{baseline['ngram_loss']:.3f}. `right_n`: share of right drafts at place n, given the right tokens before it.",
    ]
    return "\n".join(lines) + "\n"


def _checks(found: dict[str, Any]) -> str:
    lines = [
        "## The library against the trained models (F32 export)\n",
        f"- {found['lines_that_differ']} of {found['lines']} held-out lines tokenize differently.",
        f"- Logits over held-out text: mean difference {found['logits']['mean']:.1e}, largest "
        f"{found['logits']['largest']:.1e}; the largest logit is {found['logits']['largest_logit']:.1f}.",
    ]
    for name in TRAININGS[1:]:
        lines.append(f"- {name}: {found[name]['same']} of {found[name]['tried']} drafts are the same.")
    return "\n".join(lines) + "\n"


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
