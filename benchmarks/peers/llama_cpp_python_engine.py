"""The peer ``llama-cpp-python``: the usual binding, which decodes plainly."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from peers.child import Child
from peers.engines import BATCH_TOKENS, Answer, Setup
from power_core.tokens import TokenId

NAME = "llama-cpp-python"
PROGRAM = Path(__file__).with_name("llama_cpp_python_child.py")


class LlamaCppPythonEngine:
    """A ``llama_cpp.Llama`` in a process of its own, timed there as its tokens come.

    Args:
        python: An interpreter that has the package.
        setup: What to open; only plain decoding.
    """

    def __init__(self, python: Path, setup: Setup) -> None:
        self._python = python
        self._setup = setup
        self._child: Child | None = None

    def start(self) -> dict[str, str]:
        """Start the process and wait until the model is loaded.

        Raises:
            PeerError: the package is not installed there, or cannot load the model.
        """
        values = {
            "model_path": str(self._setup.model),
            "n_ctx": self._setup.ctx_tokens,
            "n_threads": self._setup.threads,
            "n_threads_batch": self._setup.threads,
            "n_batch": BATCH_TOKENS,
            "n_ubatch": BATCH_TOKENS,
        }
        self._child = Child(NAME, [str(self._python), str(PROGRAM), json.dumps(values)])
        return dict(self._child.read())

    def generate(self, prompt: Sequence[TokenId], max_tokens: int) -> Answer:
        """Ask the process for one continuation."""
        assert self._child is not None, "start comes first"
        started_ns = time.perf_counter_ns()
        answer = self._child.ask({"prompt": list(prompt), "max_tokens": max_tokens})
        total_ns = time.perf_counter_ns() - started_ns
        return Answer(tokens=tuple(answer["tokens"]), decode_ns=answer["decode_ns"], total_ns=total_ns)

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.close()
            self._child = None
