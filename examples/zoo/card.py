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
    mine, default = found["same_function"], found["default"]
    lines = [
        "## The library against the trained models\n",
        f"{found['lines_that_differ']} of {found['lines']:,} held-out lines tokenize differently. The rest compares "
        "F32 exports. With a cache of F32 and without flash attention the library computes the trained model's own "
        "function, in float32; by default it keeps keys and values in float16 and computes with them so.",
        "",
        "| on held-out text | F32 cache, no flash attention, fast arithmetic | default: F16 cache, flash attention, "
        "exact arithmetic |",
        "| --- | --- | --- |",
        f"| logits: largest difference, mean difference | {_logits(mine)} | {_logits(default)} |",
        *(
            f"| {name}: same drafts, largest difference of a score | {_drafts(mine[name])} | {_drafts(default[name])} |"
            for name in TRAININGS[1:]
        ),
        f"| contexts that rounding may decide | {_ties(mine)} | {_ties(default)} |",
        f"| different drafts that rounding does not explain | {_faults(mine)} | {_faults(default)} |",
        "",
        f"The largest logit is {mine['logits']['largest_logit']:.1f}. Rounding may decide a context where a draft was "
        "chosen, or made one of a selector's candidates, by at most twice the largest difference of a score.",
    ]
    return "\n".join(lines) + "\n"


def _logits(compared: dict[str, Any]) -> str:
    return f"{compared['logits']['largest']:.1e}, {compared['logits']['mean']:.1e}"


def _drafts(agreement: dict[str, Any]) -> str:
    return f"{agreement['same']} of {agreement['tried']}, {agreement['largest_difference']:.1e}"


def _ties(compared: dict[str, Any]) -> str:
    return ", ".join(f"{name} {compared[name]['ties']}" for name in TRAININGS[1:])


def _faults(compared: dict[str, Any]) -> int:
    return sum(len(compared[name]["faults"]) for name in TRAININGS[1:])


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
