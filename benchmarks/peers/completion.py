"""Requests to llama.cpp's server on the loopback interface, with the times that the server itself took."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from peers.engines import Answer, PeerError
from power_core.tokens import TokenId

REQUEST_TIMEOUT_S = 300.0
START_TIMEOUT_S = 120.0
POLL_S = 0.05
# The quickest chain that is greedy: with the server's default chain every row would be sorted, too.
GREEDY = {"temperature": 0.0, "samplers": ["top_k"], "top_k": 1}


class CompletionClient:
    """One server; one request at a time, each over a connection of its own: servers close idle ones.

    Args:
        name: For messages.
        address: ``http://127.0.0.1:PORT``.
    """

    def __init__(self, name: str, address: str) -> None:
        parts = urlsplit(address)
        if parts.hostname != "127.0.0.1":
            raise PeerError(f"{name} listens on {address!r}, expected the loopback interface")
        self._name = name
        self._host, self._port = parts.hostname, parts.port

    def wait_until_ready(self, running: Callable[[], bool]) -> bool:
        """Wait until the model is loaded; False when the server ended or is not ready in time."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while running() and time.monotonic() < deadline_s:
            with contextlib.suppress(OSError):
                if self._send("GET", "/health")[0] == 200:
                    return True
            time.sleep(POLL_S)
        return False

    def properties(self) -> dict[str, Any]:
        """Return what the server says of itself."""
        return self._object("GET", "/props")

    def complete(self, prompt: Sequence[TokenId], max_tokens: int) -> Answer:
        """Continue a prompt greedily. ``decode_ns`` leaves out transport and text: it is the server's own clock.

        Raises:
            PeerError: the server refuses, or its answer contradicts itself.
        """
        body = {
            "prompt": list(prompt),
            "n_predict": max_tokens,
            "cache_prompt": False,
            "return_tokens": True,
            **GREEDY,
        }
        started_ns = time.perf_counter_ns()
        answer = self._object("POST", "/completion", json.dumps(body))
        total_ns = time.perf_counter_ns() - started_ns
        tokens, timings = tuple(answer["tokens"]), answer["timings"]
        if timings["predicted_n"] != len(tokens) or answer["tokens_evaluated"] != len(prompt):
            raise PeerError(
                f"{self._name} counts {answer['tokens_evaluated']} prompt tokens and {timings['predicted_n']} new "
                f"ones, expected {len(prompt)} and {len(tokens)}",
                hint="another version of the server may count otherwise",
            )
        return Answer(
            tokens=tokens,
            decode_ns=round(timings["predicted_ms"] * 1e6),
            total_ns=total_ns,
            drafted_tokens=timings.get("draft_n", 0),
            accepted_tokens=timings.get("draft_n_accepted", 0),
        )

    def _object(self, method: str, path: str, body: str | None = None) -> dict[str, Any]:
        try:
            status, data = self._send(method, path, body)
        except (OSError, http.client.HTTPException) as error:
            raise PeerError(f"{self._name} does not answer {path}: {error!r}") from error
        if status != 200:
            raise PeerError(f"{self._name} answers {path} with status {status}: {data[:500]!r}")
        answer: dict[str, Any] = json.loads(data)
        return answer

    def _send(self, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=REQUEST_TIMEOUT_S)
        with contextlib.closing(connection):
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
