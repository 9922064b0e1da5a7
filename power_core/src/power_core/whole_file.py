"""Files that are written whole or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READABLE_BY_ALL = 0o644


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Lend the name of a file beside ``path`` to write to; it takes the place of ``path`` when the block ends.

    After an error, an interrupt included, it is removed, and ``path`` is as it was.

    Raises:
        OSError: the folder cannot be written.
    """
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=".part", delete=False) as handle:
        partial = Path(handle.name)
    try:
        yield partial
        partial.chmod(READABLE_BY_ALL)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
