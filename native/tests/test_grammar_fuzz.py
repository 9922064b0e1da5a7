"""Grammars made of everything: each is refused or used, and the process never ends. Runs in a child process."""

import subprocess
import sys
from pathlib import Path

import pytest

from power_core.testing.models import build_tiny_target

pytestmark = [pytest.mark.native]

CHILD = """
import random, sys
from pathlib import Path
from power_core.errors import PowerError
from power_core.sampler import SamplingSettings
from power_core.target import ContextSettings, ModelSettings
from power_core.tokens import SequenceRows
from power_native import NativeModel

PARTS = ['root', '::=', 'a', 'b', '"x"', '"yz"', '""', '[a-z]', '[^a]', '[]', '.', '(', ')', '*', '+', '?', '|',
         '{2}', '{1,3}', '{3,1}', '{,2}', '{0}', '<[97]>', '!<[98]>', '<a>', '"', '[', '\\\\', '#', '\\n', '\\n',
         '\\na ::=', '\\nb ::=', '\\u00e9', '\\r']
rng = random.Random(int(sys.argv[2]))
ITEMS = ['a', 'b', '"x"', '"yz"', '[a-z]', '[^a]', '.', '<[97]>', '""', '[0-9A-F]']
ENDS = ['', '', '', '', '*', '+', '?', '{2}', '{1,3}', '{0,2}', '{2,}']

def made(depth):
    items = [
        ('(' + made(depth - 1) + ')' if depth and rng.random() < 0.3 else rng.choice(ITEMS)) + rng.choice(ENDS)
        for _ in range(rng.randint(1, 3))
    ]
    return ' '.join(items) + (' | ' + made(0) if rng.random() < 0.3 else '')

def mixed():
    return ' '.join(rng.choices(PARTS, k=rng.randint(1, 6)))

model = NativeModel.open(ModelSettings(path=Path(sys.argv[1])))
context = model.open_context(ContextSettings(ctx_tokens=64, batch_rows=64, threads=1))
context.evaluate([SequenceRows(start_pos=0, tokens=list(range(60, 90)))], kernels="decode")
used = refused = 0
for _ in range(int(sys.argv[3])):
    body = mixed if rng.random() < 0.3 else lambda: made(2)
    text = "\\n".join(name + " ::= " + body() for name in ("root", "a", "b"))
    try:
        sampler = context.open_sampler(SamplingSettings(temperature=1.5, seed=rng.randrange(99), grammar=text))
        sampler.begin([])
        for row in range(12):
            mark = sampler.snapshot()
            token = sampler.sample(row)
            if model.vocabulary.is_end(token):
                break
            sampler.restore(mark)
            assert sampler.sample(row) == token, text
        used += 1
        sampler.close()
    except PowerError:
        refused += 1
print(used, refused)
"""


def run_child(path: Path, seed: int, count: int) -> tuple[int, int]:
    result = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), str(seed), str(count)], capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, (result.returncode, result.stderr[-2000:])
    assert result.stderr == ""
    used, refused = map(int, result.stdout.split())
    return used, refused


def test_random_grammars(attention_path):
    used, refused = run_child(attention_path, 1, 300)
    assert used > 20
    assert refused > 20


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_random_grammars(attention_path, seed):
    run_child(attention_path, seed, 5000)


@pytest.fixture(scope="module")
def attention_path(tmp_path_factory):
    return build_tiny_target(tmp_path_factory.mktemp("grammar") / "tiny.gguf", kind="attention")
