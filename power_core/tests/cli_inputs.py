"""What a test types into the command line: the shape of a run, and standard input."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest
from cli_fakes import Outcome

Run = Callable[..., Outcome]


def give_input(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
