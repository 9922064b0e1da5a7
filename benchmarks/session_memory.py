"""Memory growth over opened and closed sessions.

    uv run python benchmarks/session_memory.py [--sessions 100] [--spec mtp] [--json FILE]

Ten sessions warm the allocator up; the growth of the resident set over the following ones is printed in MB. The JSON
keeps the resident set after every session.
"""

from __future__ import annotations

import argparse
import gc
import json
from pathlib import Path

from power_core import open_session

WARM_UP_SESSIONS = 10


def resident_mb() -> float:
    """Resident set of this process (Linux)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:")) / 1e6


def run_session(spec: str) -> float:
    """Open, use and close one session; return the resident set afterwards."""
    with open_session(spec=spec, ctx=512, threads=1) as session:
        session.generate("import os\n", max_tokens=8).result()
    gc.collect()
    return resident_mb()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--spec", default="mtp")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    before_mb = [run_session(options.spec) for _ in range(WARM_UP_SESSIONS)][-1]
    samples_mb = [run_session(options.spec) for _ in range(options.sessions)]
    figures = {
        "spec": options.spec,
        "sessions": options.sessions,
        "growth_mb": round(samples_mb[-1] - before_mb, 2),
    }
    print(json.dumps(figures))
    if options.json:
        figures["samples_mb"] = [round(sample, 2) for sample in samples_mb]
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(figures) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
