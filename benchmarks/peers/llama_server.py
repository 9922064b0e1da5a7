"""The peer ``llama-server``: llama.cpp's own server, built from the pinned source."""

from __future__ import annotations

import socket
from pathlib import Path

from peers.child import Child
from peers.completion import CompletionClient
from peers.engines import BATCH_TOKENS, Setup
from peers.served import ServedEngine

NAME = "llama-server"
# One slot; nothing that serves reuse between requests, since there is none; the rest as the server has it.
OPTIONS = ("--parallel", "1", "--ctx-checkpoints", "0", "--cache-ram", "0", "--fit", "off", "--log-verbosity", "1")


class LlamaServerEngine(ServedEngine):
    """A server in a process of its own.

    Args:
        program: The program, see ``server_build``.
        setup: What to open; strategies are those of ``--spec-type``, ``none`` for plain decoding.
    """

    def __init__(self, program: Path, setup: Setup) -> None:
        super().__init__()
        self._program = program
        self._setup = setup

    def start(self) -> dict[str, str]:
        """Start the server and wait until it has loaded.

        Raises:
            PeerError: it ended or did not become ready.
        """
        port = free_port()
        self._child = Child(NAME, [str(self._program), *server_arguments(self._setup, port)])
        self._client = CompletionClient(NAME, f"http://127.0.0.1:{port}")
        if not self._client.wait_until_ready(lambda: self._child is not None and self._child.running):
            raise self._child.failure(f"does not serve {self._setup.strategy} of {self._setup.model.name}")
        return {"version": self._client.properties()["build_info"]}


def server_arguments(setup: Setup, port: int) -> list[str]:
    """Return the command line after the program's name."""
    arguments = ["--host", "127.0.0.1", "--port", str(port), "--model", str(setup.model), *OPTIONS]
    arguments += ["--threads", str(setup.threads), "--threads-batch", str(setup.threads)]
    arguments += ["--ctx-size", str(setup.ctx_tokens)]
    arguments += ["--batch-size", str(BATCH_TOKENS), "--ubatch-size", str(BATCH_TOKENS)]
    arguments += ["--flash-attn", setup.flash_attention]
    arguments += ["--spec-type", setup.strategy]
    if setup.draft is not None:
        arguments += ["--spec-draft-model", str(setup.draft)]
        arguments += ["--spec-draft-threads", str(setup.threads), "--spec-draft-threads-batch", str(setup.threads)]
    if setup.draft_max is not None:
        arguments += ["--spec-draft-n-max", str(setup.draft_max)]
    return arguments


def free_port() -> int:
    """Return a port of the loopback interface that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
