"""The peer ``xllamacpp``: a wheel that holds llama.cpp's server as a library of Python."""

from __future__ import annotations

import json
from pathlib import Path

import attrs

from peers.child import Child
from peers.completion import CompletionClient
from peers.engines import BATCH_TOKENS, Setup
from peers.served import ServedEngine

NAME = "xllamacpp"
PROGRAM = Path(__file__).with_name("xllamacpp_child.py")


class XllamacppEngine(ServedEngine):
    """The wheel's server, in a process of its own, so that neither side's threads and memory are the other's.

    Args:
        python: An interpreter that has the wheel.
        setup: What to open; strategies as those of ``llama-server``.
    """

    def __init__(self, python: Path, setup: Setup) -> None:
        super().__init__()
        self._python = python
        self._setup = setup

    def start(self) -> dict[str, str]:
        """Start the process and wait until its server has loaded.

        Raises:
            PeerError: the wheel is not installed there, or does not serve this strategy.
        """
        values = {
            **attrs.asdict(self._setup),
            "model": str(self._setup.model),
            "draft": None if self._setup.draft is None else str(self._setup.draft),
            "batch_tokens": BATCH_TOKENS,
        }
        self._child = Child(NAME, [str(self._python), str(PROGRAM), json.dumps(values)])
        ready = self._child.read()
        self._client = CompletionClient(NAME, ready["address"])
        return {"version": ready["version"], "build": ready["build"]}
