"""Five faults planted by hand, in copies of our own sources: the profile `contract` finds each through the program."""

import json
import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import attrs
import pytest


@attrs.frozen(kw_only=True)
class Planted:
    """One change of one source file.

    Attributes:
        sentence: What is wrong.
        module: Module that is changed, in a copy of its package.
        old: Text that occurs once in it.
        new: What takes its place.
        subject: Plugin that the kit runs for.
    """

    sentence: str
    module: str
    old: str
    new: str
    subject: str


ROLLBACK = "rollback keeps one rejected row"
FAULTS = (
    Planted(
        sentence=ROLLBACK,
        module="power_core.sequence",
        old="self.context.truncate(start_pos + len(kept), self.seq_id)",
        new="self.context.truncate(start_pos + len(kept) + 1, self.seq_id)",
        subject="power-dspark",
    ),
    Planted(
        sentence=ROLLBACK,
        module="power_ngram.drafter",
        old="sequence.output.truncate(checkpoint[1])",
        new="sequence.output.truncate(checkpoint[1] + 1)",
        subject="power-ngram",
    ),
    Planted(
        sentence=ROLLBACK,
        module="power_mtp.graph",
        old="self._context.truncate(state.length_tokens, seq_id)",
        new="self._context.truncate(min(state.length_tokens + 1, self._context.length_tokens(seq_id)), seq_id)",
        subject="power-mtp",
    ),
    Planted(
        sentence="convolution window not restored",
        module="power_core.sequence",
        old="            self.context.truncate(start_pos + len(kept), self.seq_id)\n            return\n",
        new="""\
            import struct
            before = bytes(self.checkpoint().data)
            self.context.truncate(start_pos + len(kept), self.seq_id)
            mark, at, rows = self.checkpoint(), 52, []
            while at < len(mark.data):
                size = struct.unpack_from("<Q", mark.data, at + 4)[0]
                rows.append((at + 12, size))
                at += 12 + size
            data, smallest = bytearray(mark.data), min((size for _, size in rows), default=0)
            for place, size in rows:
                if size == smallest:
                    data[place : place + size] = before[place : place + size]
            if rows:
                self.context.restore(Checkpoint(seq_id=self.seq_id, length_tokens=mark.length_tokens, data=bytes(data)))
            return
""",
        subject="power-mtp",
    ),
    Planted(
        sentence="pending MTP row taken from the rejected suffix",
        module="power_core.sequence",
        old="        last = self._sequence.context.read_taps(0, n_rows - self._slice_start)\n",
        new="""\
        last = self._sequence.context.read_taps(0, n_rows - self._slice_start)
        if n_rows < self.evaluated_rows and last.nextn is not None:
            last.nextn[-1] = self._sequence.context.read_taps(n_rows - self._slice_start, 1).nextn[0]
""",
        subject="power-mtp",
    ),
    Planted(
        sentence="seed drawn once more after a rejection",
        module="power_core.verify",
        old="        if token != draft:\n",
        new="        if token != draft:\n            sample(row)\n",
        subject="power-ngram",
    ),
    Planted(
        sentence="DSpark read from row 1 instead of 0",
        module="power_core.blocks",
        old="return 0 if self.predicts_at_anchor else 1",
        new="return 1",
        subject="power-dspark",
    ),
)


each_fault = pytest.mark.parametrize(
    "fault", FAULTS, ids=lambda each: f"{each.sentence}, {each.subject}".replace(" ", "-")
)


@each_fault
def test_the_source_has_the_place_that_is_changed(fault, tmp_path):
    plant(fault, tmp_path)


@pytest.mark.native
@pytest.mark.full
@pytest.mark.slow
@each_fault
def test_the_contract_profile_finds_it(fault, tmp_path):
    plant(fault, tmp_path)
    report = tmp_path / "report.json"
    command = ["run", fault.subject, "--profile", "contract", "-x", "--report", str(report)]
    path = os.pathsep.join([str(tmp_path), *(each for each in sys.path if each)])
    done = subprocess.run(
        [sys.executable, "-m", "power_contract.cli", *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout[-4000:]
    clauses = json.loads(report.read_text(encoding="utf-8"))["clauses"]
    failed = [each["clause"] for each in clauses if each["result"] == "failed"]
    assert failed, done.stdout[-4000:]
    assert not failed[0].startswith(("INFO", "ART")), done.stdout[-4000:]


def plant(fault, folder):
    """Copy the package of a module into a folder and change the module there."""
    package, *rest = fault.module.split(".")
    source = Path(import_module(package).__file__).parent
    shutil.copytree(source, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    file = (folder / package).joinpath(*rest).with_suffix(".py")
    text = file.read_text(encoding="utf-8")
    assert text.count(fault.old) == 1, f"{fault.module} has changed: plant {fault.sentence!r} anew"
    file.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
