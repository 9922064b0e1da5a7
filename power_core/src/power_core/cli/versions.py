"""Versions of installed distributions."""

from __future__ import annotations

from importlib import metadata

NOT_INSTALLED = "not installed"


def package_version(name: str) -> str:
    """Return the installed version of a distribution, or that it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return NOT_INSTALLED
