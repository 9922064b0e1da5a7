"""Power beside its peers: the same models, threads, K and prompts, in turns of one run. `run.py` is the command.

- ``engines``      what is asked of an engine, Power's own included: start, generate, close
- ``power_engine``, ``llama_server``, ``xllamacpp_engine``, ``llama_cpp_python_engine``: one engine each
- ``child``        their processes; ``completion`` the HTTP requests; ``*_child`` programs that run in a peer's process
- ``served``       what both peers that serve have in common
- ``server_build`` llama-server from the pinned source, with Power's own build options
- ``contests``     who meets whom, on what; ``runner`` the runs; ``records`` their file; ``report`` figures and tables
"""
