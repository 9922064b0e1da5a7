"""Power against its peers in one run: same models, threads, K and prompts, greedy, in alternating order.

    python benchmarks/peers/run.py --minutes 30 [--write-docs] [--peers-python PATH] [--llama-server PATH]

llama-server is built from the pinned source at first use. The other peers are packages: xllamacpp of the group `bench`
and those of benchmarks/peers/requirements.txt, in this environment or in that of --peers-python. docs/performance.md
has the method.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import attrs

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

from doc_sections import write_section  # noqa: E402

from peers.contests import PEERS, Options, contests  # noqa: E402
from peers.engines import BATCH_TOKENS  # noqa: E402
from peers.llama_server import NAME as LLAMA_SERVER  # noqa: E402
from peers.records import ContestRecord, PeersRecord, read_record, write_record  # noqa: E402
from peers.report import report  # noqa: E402
from peers.runner import run_contest  # noqa: E402
from peers.server_build import llama_server  # noqa: E402
from peers.workloads import WorkloadName  # noqa: E402
from power_core.bench.identities import describe_environment, load_averages  # noqa: E402
from power_core.errors import PowerError  # noqa: E402
from power_core.plugins.manager import load_plugins  # noqa: E402

RESULTS = HERE.parent / "results"
PAGE = HERE.parents[1] / "docs" / "performance.md"
TOKENS: dict[WorkloadName, int] = {"zoo": 256, "zoo mixed": 256, "gemma": 256}
SMALL_TOKENS: dict[WorkloadName, int] = {"zoo": 32, "zoo mixed": 32}


def run(arguments: argparse.Namespace) -> PeersRecord:
    """Run every contest whose name has all words of ``--only``; they share the time by their weights."""
    peers = tuple(name for name in PEERS if name not in arguments.without)
    options = Options(
        peers=peers,
        llama_server=arguments.llama_server or (llama_server() if LLAMA_SERVER in peers else HERE),
        python=arguments.peers_python,
        threads=arguments.threads,
        prompts=1 if arguments.small else arguments.prompts,
        max_tokens=SMALL_TOKENS if arguments.small else TOKENS,
    )
    load_before = load_averages()
    chosen = tuple(contests(options, arguments.only))
    until_s = time.monotonic() + (0.0 if arguments.small else 60.0 * arguments.minutes)
    finished: list[ContestRecord] = []
    for number, contest in enumerate(chosen):
        left_s, waiting = until_s - time.monotonic(), sum(each.weight for each in chosen[number:])
        finished.append(run_contest(contest, left_s * contest.weight / waiting))
        passes = max(sample.repeat for sample in finished[-1].samples) + 1
        print(f"{contest.name}: {len(finished[-1].samples)} answers in {passes} passes", flush=True)
    environment = describe_environment(load_plugins(), load_before)
    return PeersRecord(
        recorded_at=datetime.now(UTC).isoformat(timespec="seconds"),
        threads=options.threads,
        batch_tokens=BATCH_TOKENS,
        environment=attrs.asdict(environment),
        contests=tuple(finished),
    )


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="time for all contests, builds and loading apart")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompts", type=int, default=24, help="prompts a contest")
    parser.add_argument("--small", action="store_true", help="one prompt, short answers, the zoo alone: a dry run")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="contests whose name has all the words")
    parser.add_argument("--without", nargs="+", default=[], choices=PEERS, help="peers to leave out")
    parser.add_argument("--llama-server", type=Path, help="a finished program instead of building one")
    parser.add_argument("--peers-python", type=Path, default=Path(sys.executable), help="has the peers' packages")
    parser.add_argument("--json", type=Path, help="default: results/peers-N-threads.json")
    parser.add_argument("--render", action="store_true", help="run nothing, report what --json holds")
    parser.add_argument("--write-docs", action="store_true")
    options = parser.parse_args(arguments)
    options.json = options.json or RESULTS / f"peers-{options.threads}-threads.json"
    return options


def end_on_signal(number: int, _: object) -> None:
    """End as after an error, so that no peer's process stays."""
    raise SystemExit(128 + number)


def main() -> None:
    """Run, keep the samples, print the tables."""
    arguments = parse()
    signal.signal(signal.SIGTERM, end_on_signal)
    try:
        record = read_record(arguments.json) if arguments.render else run(arguments)
    except PowerError as error:
        raise SystemExit(f"error[{error.code}]: {error}{f' Hint: {error.hint}.' if error.hint else ''}") from error
    if not arguments.render:
        write_record(record, arguments.json)
    text = report(record)
    print(text)
    if arguments.write_docs:
        write_section(PAGE, f"peers-{record.threads}-threads", text)


if __name__ == "__main__":
    main()
