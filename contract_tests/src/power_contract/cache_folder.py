"""A cache folder of its own: a run neither believes what was measured elsewhere nor leaves measurements behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from unittest.mock import patch


@contextmanager
def own_cache_folder() -> Iterator[None]:
    """Let the core keep its measurements in an empty folder, which is deleted at the end."""
    with (
        TemporaryDirectory(prefix="power-contract-cache-") as folder,
        patch.dict(os.environ, {"POWER_CACHE_DIR": folder}),
    ):
        yield
