"""Runs in the peer's interpreter: one ``llama_cpp.Llama``, one request a line, one answer a line.

python llama_cpp_python_child.py '{"model_path": ..., "n_ctx": ..., ...}'
"""

import json
import os
import sys
import time
from typing import Any

import llama_cpp  # type: ignore[import-not-found]


def main() -> None:
    """Answer until the input ends."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the library prints goes to the log
    llama = llama_cpp.Llama(**json.loads(sys.argv[1]), verbose=False)
    ready = {"version": llama_cpp.__version__, "build": llama_cpp.llama_print_system_info().decode()}
    print(json.dumps(ready), file=channel, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        answer = generate(llama, request["prompt"], request["max_tokens"])
        print(json.dumps(answer), file=channel, flush=True)


def generate(llama: "llama_cpp.Llama", prompt: list[int], max_tokens: int) -> dict[str, Any]:
    """Continue a prompt greedily; nothing of earlier requests is reused."""
    llama.reset()
    tokens: list[int] = []
    first_ns = last_ns = 0
    end = llama.token_eos()
    for token in llama.generate(prompt, temp=0.0):
        if token == end:
            break
        tokens.append(token)
        last_ns = time.perf_counter_ns()
        if len(tokens) == 1:
            first_ns = last_ns
        if len(tokens) == max_tokens:
            break
    return {"tokens": tokens, "decode_ns": last_ns - first_ns}


if __name__ == "__main__":
    main()
