"""Hunts for files that pass every check and still end the process: used in child processes, in batches."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import attrs
from file_parts import Pair, Parts, Tensor

from power_core.artifacts.drafts import check_draft
from power_core.artifacts.gguf import scan_header
from power_core.artifacts.target_checks import check_target
from power_core.errors import ArtifactError
from power_core.plugins.manager import load_plugins

CHILD = Path(__file__).with_name("fuzz_child.py")
BATCH_FILES = 50


@attrs.define
class Hunt:
    """Gathers broken files that the checks accept, and uses them.

    Attributes:
        folder: Where the files lie while they are used.
        target: The target of drafts; None when the files are targets.
        outcomes: What came of the accepted files, by error code.
        failures: One text per file that ended its process: how, and the mutation that is enough for it.
    """

    folder: Path
    target: Path | None = None
    outcomes: Counter[str] = attrs.field(factory=Counter)
    failures: list[str] = attrs.field(factory=list)
    _waiting: list[tuple[Path, Parts, Parts]] = attrs.field(factory=list)

    def add(self, sound: Parts, broken: Parts) -> None:
        """Use ``broken`` if it is accepted; ``sound`` is what it was made from."""
        path = self.folder / f"{len(self._waiting)}.gguf"
        path.write_bytes(broken.build())
        if self._refused(path):
            self.outcomes["refused"] += 1
            return
        self._waiting.append((path, sound, broken))
        if len(self._waiting) == BATCH_FILES:
            self.finish()

    def finish(self) -> None:
        """Use what is waiting."""
        while self._waiting:
            outcomes, end = self._run([path for path, _, _ in self._waiting])
            self.outcomes.update(outcomes)
            if end is None:
                self._waiting.clear()
                return
            path, sound, broken = self._waiting[len(outcomes)]
            del self._waiting[: len(outcomes) + 1]
            small = shrink(sound, broken, lambda parts, path=path: self._ends_process(path, parts))
            self.failures.append(f"{end}\nafter {differences(sound, small)}")

    def _refused(self, path: Path) -> bool:
        try:
            header = scan_header(path)
            if self.target is None:
                check_target(header).raise_first()
            else:
                check_draft(scan_header(self.target), header, load_plugins().validators())
        except ArtifactError:
            return True
        return False

    def _ends_process(self, path: Path, parts: Parts) -> bool:
        path.write_bytes(parts.build())
        return not self._refused(path) and self._run([path])[1] is not None

    def _run(self, paths: list[Path]) -> tuple[list[str], str | None]:
        """Return the outcomes of the files before the process ended, and how it ended; None when it did all."""
        jobs = [(path, None) if self.target is None else (self.target, path) for path in paths]
        lines = "".join(json.dumps(job, default=str) + "\n" for job in jobs)
        done = subprocess.run([sys.executable, CHILD], input=lines, capture_output=True, text=True, check=False)
        outcomes = [line for line in done.stdout.splitlines() if line != "begin"]
        if done.returncode == 0:
            assert len(outcomes) == len(paths)
            return outcomes, None
        return outcomes, f"exit status {done.returncode}: {done.stderr[-2000:]}"


def shrink(sound: Parts, broken: Parts, still: Callable[[Parts], bool]) -> Parts:
    """Put sound pieces back, one at a time, as long as ``still`` holds; drop those that the sound file lacks."""
    for field, name in (("pairs", "key"), ("tensors", "name")):
        originals = {getattr(item, name): item for item in getattr(sound, field)}
        for identity in dict.fromkeys([*originals, *(getattr(item, name) for item in getattr(broken, field))]):
            items = getattr(broken, field)
            found = [item for item in items if getattr(item, name) == identity]
            wanted = [originals[identity]] if identity in originals else []
            if [_without_place(item) for item in found] == [_without_place(item) for item in wanted]:
                continue
            kept = [item for item in items if getattr(item, name) != identity]
            restored = attrs.evolve(broken, **{field: (*kept, *wanted)}).laid_out()
            if still(restored):
                broken = restored
    return broken


def _without_place(item: Pair | Tensor) -> Pair | Tensor:
    return attrs.evolve(item, offset_bytes=0) if isinstance(item, Tensor) else item


def differences(sound: Parts, broken: Parts) -> str:
    """Describe how two files differ, without offsets."""

    def pieces(parts: Parts) -> set[object]:
        return {_without_place(item) for item in (*parts.pairs, *parts.tensors)}

    lost, found = pieces(sound) - pieces(broken), pieces(broken) - pieces(sound)
    if sound.laid_out().data != broken.laid_out().data:
        found.add("other tensor data")
    return "\n".join(["", *(f"- {piece!r}" for piece in lost), *(f"+ {piece!r}" for piece in found)])
