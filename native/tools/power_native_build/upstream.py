"""Reads UPSTREAM.toml, the single pin of the native library."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """The pinned source.

    Attributes:
        distribution: Name of the source distribution on the package index.
        version: Its version.
        sha256: Lower-case hex digest of the archive.
        folder: llama.cpp's folder inside the archive.
        commit: llama.cpp's commit.
    """

    distribution: str
    version: str
    sha256: str
    folder: str
    commit: str

    @property
    def archive_name(self) -> str:
        """File name of the archive, as the index spells it."""
        return f"{self.distribution.replace('-', '_')}-{self.version}.tar.gz"


def read_upstream(path: Path) -> Upstream:
    """Read the pin.

    Raises:
        KeyError: an entry is absent; nothing has a default.
    """
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    source = tables["source"]
    return Upstream(
        distribution=source["distribution"],
        version=source["version"],
        sha256=source["sha256"],
        folder=source["folder"],
        commit=tables["llama_cpp"]["commit"],
    )
