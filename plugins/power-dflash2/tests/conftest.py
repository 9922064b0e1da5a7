"""The fixtures of the suites that all block drafters share, for this one."""

import pytest
from block_files import BlockKind, bench, files  # noqa: F401 - fixtures

from power_dflash2 import plugin


@pytest.fixture(scope="session")
def kind():
    return BlockKind(name="dflash2", plugin=plugin)
