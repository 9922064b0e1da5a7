"""Run all checks of a device within a budget of time and write one JSON and one PNG; see run.sh."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
from costs import device_costs
from pictures import draw
from sections import Run, SectionError, contract_kit, exactness_table, strategies_parity

from power_core.cli.versions import package_version
from power_native.info import cuda_info, devices, library_info

SECTIONS: dict[str, Callable[[Run], dict[str, Any]]] = {
    "parity": strategies_parity,
    "exactness": exactness_table,
    "costs": device_costs,
    "contract": contract_kit,
}
BUDGET_S = 480.0
# A section is not begun with less than this left.
LEAST_S = 30.0


def main() -> int:
    """Run the sections; 1 when one failed or was not run."""
    arguments = _arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    started_s = time.monotonic()
    gpu = any(device.kind in ("gpu", "integrated-gpu") for device in devices())
    report: dict[str, Any] = {"machine": _machine(), "gpu": gpu, "small": arguments.small, "sections": {}}
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        run = Run(
            folder=Path(folder),
            gpu=gpu,
            small=arguments.small,
            target=arguments.target,
            drafts=_drafts(arguments.draft),
        )
        for name, section in SECTIONS.items():
            left_s = arguments.budget_s - (time.monotonic() - started_s)
            report["sections"][name] = _attempt(section, run) if left_s >= LEAST_S else {"not_run": "out of time"}
            _write(arguments.out, report)
            print(f"{name}: {_state(report['sections'][name])}", flush=True)
    report["elapsed_s"] = time.monotonic() - started_s
    _write(arguments.out, report)
    draw(report, arguments.out / "device.png")
    failed = [name for name, result in report["sections"].items() if "error" in result or "not_run" in result]
    print(f"wrote {arguments.out / 'device.json'} after {report['elapsed_s']:.0f} s; failed: {failed or 'nothing'}")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for device.json and device.png")
    parser.add_argument("--small", action="store_true", help="dry run with small shapes")
    parser.add_argument("--budget-s", type=float, default=BUDGET_S, help="no section begins after that many seconds")
    parser.add_argument("--target", type=Path, help="trained target, the zoo's")
    parser.add_argument("--draft", action="append", default=[], metavar="KIND=FILE", help="its draft; repeatable")
    parser.add_argument("--scratch", type=Path, help="where models are made; the system's folder by default")
    return parser.parse_args()


def _drafts(pairs: list[str]) -> dict[str, Path]:
    return {kind: Path(path) for kind, _, path in (pair.partition("=") for pair in pairs)}


def _attempt(section: Callable[[Run], dict[str, Any]], run: Run) -> dict[str, Any]:
    started_s = time.monotonic()
    try:
        result = section(run)
    except SectionError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {**result, "elapsed_s": time.monotonic() - started_s}


def _state(result: dict[str, Any]) -> str:
    return result.get("error") or result.get("not_run") or f"{result['elapsed_s']:.1f} s"


def _machine() -> dict[str, Any]:
    info, cuda = library_info(), cuda_info()
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "power_core": package_version("power-core"),
        "llama_commit": info.llama_commit,
        "content_key": info.content_key,
        "cmake_args": info.cmake_args,
        "devices": [attrs.asdict(device) for device in devices()],
        "cuda": None if cuda is None else attrs.asdict(cuda),
    }


def _write(folder: Path, report: dict[str, Any]) -> None:
    (folder / "device.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
