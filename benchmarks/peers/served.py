"""What both peers that serve have in common: a process of their own, and a client of its server."""

from __future__ import annotations

from collections.abc import Sequence

from peers.child import Child
from peers.completion import CompletionClient
from peers.engines import Answer
from power_core.tokens import TokenId


class ServedEngine:
    """A server's process and its client, both set by the peer's ``start``."""

    def __init__(self) -> None:
        self._child: Child | None = None
        self._client: CompletionClient | None = None

    def generate(self, prompt: Sequence[TokenId], max_tokens: int) -> Answer:
        """See ``CompletionClient.complete``."""
        assert self._client is not None, "start comes first"
        return self._client.complete(prompt, max_tokens)

    def close(self) -> None:
        """End the server's process."""
        if self._child is not None:
            self._child.close()
            self._child = None
