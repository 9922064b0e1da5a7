"""Runs in the peer's interpreter: opens xllamacpp's server, says where it listens, ends with its input.

python xllamacpp_child.py '{"model": ..., "strategy": ..., ...}'
"""

import json
import os
import sys
from importlib import metadata
from typing import Any

import xllamacpp  # type: ignore[import-not-found]


def main() -> None:
    """Serve until the input ends."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the library prints goes to the log
    setup = json.loads(sys.argv[1])
    server = xllamacpp.Server(parameters(setup))
    ready = {
        "address": server.listening_address,
        "version": metadata.version("xllamacpp"),
        "build": str(xllamacpp.BUILD_INFO),
    }
    print(json.dumps(ready), file=channel, flush=True)
    sys.stdin.read()


def parameters(setup: dict[str, Any]) -> "xllamacpp.CommonParams":
    """Return the server's parameters; the same as llama_server.py gives on the command line."""
    params = xllamacpp.CommonParams()
    params.model.path = setup["model"]
    params.hostnames = ["127.0.0.1"]
    params.n_parallel = 1
    params.n_ctx_checkpoints = 0
    params.cache_ram_mib = 0
    params.fit_params = False
    params.verbosity = 1
    params.n_ctx = setup["ctx_tokens"]
    params.n_batch = params.n_ubatch = setup["batch_tokens"]
    draft = params.speculative.draft
    for cpu in (params.cpuparams, params.cpuparams_batch, draft.cpuparams, draft.cpuparams_batch):
        cpu.n_threads = setup["threads"]
    if setup["strategy"] != "none":
        name = setup["strategy"].upper().replace("-", "_")
        kinds = xllamacpp.common_speculative_type
        params.speculative.types = [getattr(kinds, f"COMMON_SPECULATIVE_TYPE_{name}")]
    if setup["draft"] is not None:
        draft.mparams.path = setup["draft"]
    if setup["draft_max"] is not None:
        draft.n_max = setup["draft_max"]
    return params


if __name__ == "__main__":
    main()
