"""Processes of peers: started with a log, spoken to line by line, and always ended."""

from __future__ import annotations

import json
import select
import subprocess
import tempfile
from collections.abc import Sequence
from typing import IO, Any

from peers.engines import PeerError

ANSWER_TIMEOUT_S = 300.0
END_TIMEOUT_S = 10.0
LOG_BYTES_SHOWN = 1_500


class Child:
    """One process. Its standard output carries one JSON object a line; everything else goes to a log.

    Args:
        name: For messages.
        command: The program and its arguments.
    """

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self._name = name
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, bufsize=0
            )
        except OSError as error:
            self._log.close()
            raise PeerError(f"{name} cannot be started: {error}", hint="check the path of its program") from error

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def read(self, timeout_s: float = ANSWER_TIMEOUT_S) -> dict[str, Any]:
        """Return the next object that the process writes.

        Raises:
            PeerError: it ended, or wrote nothing in time.
        """
        stream = self._process.stdout
        assert stream is not None, "Popen was given PIPE"
        ready, _, _ = select.select([stream], [], [], timeout_s)
        line = stream.readline() if ready else b""
        if not line:
            raise self.failure("ended without an answer" if ready else f"wrote nothing in {timeout_s:.0f} s")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Write one object and return the object that answers it.

        Raises:
            PeerError: see ``read``.
        """
        stream = self._process.stdin
        assert stream is not None, "Popen was given PIPE"
        try:
            stream.write(json.dumps(question).encode() + b"\n")
        except BrokenPipeError:
            raise self.failure("ended before the request") from None
        return self.read()

    def failure(self, what: str) -> PeerError:
        """Return the error that says what happened and how the log ends."""
        size = self._log.seek(0, 2)
        self._log.seek(max(0, size - LOG_BYTES_SHOWN))
        tail = self._log.read().decode(errors="replace").strip()
        return PeerError(f"{self._name} {what}; its log ends:\n{tail or '(empty)'}")

    def close(self) -> None:
        """End the process, by force when it does not heed the signal."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.terminate()
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
