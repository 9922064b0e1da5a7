"""The one error of the build: a message for the person who builds."""

from __future__ import annotations


class BuildError(Exception):
    """The library cannot be built; the message says what, which value, and what to do next."""
