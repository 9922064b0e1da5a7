"""Processes and requests of peers, with stand-ins: nothing is left running, and what goes wrong is told."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest
from peers.child import Child
from peers.completion import GREEDY, CompletionClient
from peers.engines import PeerError, Setup
from peers.llama_server import LlamaServerEngine, server_arguments
from peers.xllamacpp_engine import XllamacppEngine

ECHO = "import sys\nfor line in sys.stdin: print(line.strip(), flush=True)"
STUBBORN = (
    "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('{}', flush=True)\ntime.sleep(600)"
)


def child(program: str) -> Child:
    return Child("fake", [sys.executable, "-c", program])


def test_a_child_answers_line_by_line():
    process = child(ECHO)
    assert process.ask({"a": 1}) == {"a": 1}
    assert process.ask({"b": [2]}) == {"b": [2]}
    assert process.running
    process.close()
    assert not process.running


def test_a_child_that_dies_is_told_with_its_log():
    process = child("import sys; sys.exit('no such model')")
    with pytest.raises(PeerError, match="fake ended without an answer; its log ends:\nno such model"):
        process.read()
    process.close()


def test_a_child_that_says_nothing_is_told():
    process = child("import time; time.sleep(600)")
    with pytest.raises(PeerError, match="wrote nothing in 0 s"):
        process.read(timeout_s=0.1)
    process.close()
    assert not process.running


def test_a_child_that_ignores_the_signal_is_killed(monkeypatch):
    monkeypatch.setattr("peers.child.END_TIMEOUT_S", 0.2)
    process = child(STUBBORN)
    assert process.read() == {}
    process.close()
    assert not process.running


def test_a_program_that_does_not_exist_is_an_error():
    with pytest.raises(PeerError, match="cannot be started"):
        Child("fake", ["/nonexistent/program"])


class Handler(BaseHTTPRequestHandler):
    """Answers like llama.cpp's server; the class attributes say what."""

    protocol_version = "HTTP/1.1"
    predicted_n = 3
    status = 200
    asked: ClassVar[dict] = {}

    def do_GET(self):
        self._answer({"build_info": "fake-1"} if self.path == "/props" else {"status": "ok"})

    def do_POST(self):
        type(self).asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        timings = {"predicted_n": self.predicted_n, "predicted_ms": 2.5, "draft_n": 4, "draft_n_accepted": 1}
        self._answer({"tokens": [7, 8, 9], "tokens_evaluated": len(self.asked["prompt"]), "timings": timings})

    def log_message(self, *_):
        pass

    def _answer(self, values):
        body = json.dumps(values).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def served(monkeypatch):
    handler = type("FreshHandler", (Handler,), {})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    client = CompletionClient("fake", f"http://127.0.0.1:{server.server_port}")
    yield handler, client
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_request_is_greedy_without_reuse_and_takes_the_servers_clock(served):
    handler, client = served
    assert client.wait_until_ready(lambda: True)
    assert client.properties() == {"build_info": "fake-1"}
    answer = client.complete([1, 2], 3)
    assert handler.asked == {"prompt": [1, 2], "n_predict": 3, "cache_prompt": False, "return_tokens": True, **GREEDY}
    assert (answer.tokens, answer.decode_ns) == ((7, 8, 9), 2_500_000)
    assert (answer.drafted_tokens, answer.accepted_tokens) == (4, 1)
    assert answer.total_ns > 0


def test_an_answer_that_contradicts_itself_is_refused(served):
    handler, client = served
    handler.predicted_n = 2
    with pytest.raises(PeerError, match="2 new ones, expected 2 and 3"):
        client.complete([1, 2], 3)


def test_a_refusal_is_told_with_its_text(served):
    handler, client = served
    handler.status = 500
    with pytest.raises(PeerError, match="answers /completion with status 500"):
        client.complete([1], 3)


def test_a_server_that_has_ended_is_not_waited_for():
    client = CompletionClient("fake", "http://127.0.0.1:9")
    assert not client.wait_until_ready(lambda: False)


def test_only_the_loopback_interface_is_spoken_to():
    with pytest.raises(PeerError, match="expected the loopback interface"):
        CompletionClient("fake", "http://192.0.2.1:80")


def test_the_servers_command_line_says_what_everybody_gets(tmp_path):
    setup = Setup(
        model=tmp_path / "t.gguf",
        strategy="draft-dspark",
        draft=tmp_path / "d.gguf",
        draft_max=4,
        threads=2,
        ctx_tokens=1024,
    )
    options = server_arguments(setup, 1234)
    pairs = dict(zip(options[::2], options[1::2], strict=True))
    assert (pairs["--host"], pairs["--port"]) == ("127.0.0.1", "1234")
    assert (pairs["--spec-type"], pairs["--spec-draft-n-max"]) == ("draft-dspark", "4")
    assert pairs["--threads"] == pairs["--threads-batch"] == pairs["--spec-draft-threads"] == "2"
    assert pairs["--flash-attn"] == "auto"
    assert pairs["--batch-size"] == pairs["--ubatch-size"] == "512"


def test_engines_whose_peer_ends_at_once_say_so_and_leave_nothing(tmp_path):
    setup = Setup(model=tmp_path / "t.gguf", strategy="none", threads=1, ctx_tokens=64)
    program = tmp_path / "peer"
    program.write_text("#!/bin/sh\necho cannot load it >&2\nexit 3\n")
    program.chmod(0o755)
    for engine in (LlamaServerEngine(program, setup), XllamacppEngine(program, setup)):
        with pytest.raises(PeerError, match="cannot load it"):
            engine.start()
        engine.close()
        engine.close()
