"""Memory growth over opened and closed sessions.

    uv run python benchmarks/session_memory.py [--sessions 100] [--spec mtp]

Ten sessions warm the allocator up; the growth of the resident set over the following ones is printed in MB.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
from pathlib import Path

from power_core import open_session


def resident_bytes() -> int:
    """Resident set size of this process."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


def run_sessions(count: int, spec: str) -> None:
    """Open, use and close sessions one after another."""
    for _ in range(count):
        with open_session(spec=spec, ctx=512) as session:
            session.generate("import os\n", max_tokens=8).result()
    gc.collect()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--spec", default="mtp")
    options = parser.parse_args()
    run_sessions(10, options.spec)
    before = resident_bytes()
    run_sessions(options.sessions, options.spec)
    figures = {
        "sessions": options.sessions,
        "growth_mb": round((resident_bytes() - before) / 1e6, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3, 1),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
