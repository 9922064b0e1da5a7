"""Benchmarks: strategies against plain decoding, in paired runs of one process. docs/benchmarking.md has the method.

- ``plan``        what is run: variants, prompts, repeats, gates; ``prompts`` reads prompt sets
- ``runner``      ``run_bench(plan)`` runs it and returns a ``BenchReport``; ``pairs`` are the runs themselves
- ``sessions``    sessions that stay open together, or one at a time; ``synthetic`` replays an acceptance profile
- ``measures``    one request, measured; ``costs`` one evaluation of the target by its rows; ``memory`` of the process
- ``records``     the report; ``files`` reads and writes it; ``identities`` says on which files and machine it was made
- ``summary``     samples to figures; ``statistics`` medians and intervals; ``gates`` what had to be reached
- ``validity``    which runs are refused; ``comparison`` two reports; ``drawing`` and ``charts`` pictures of them
"""
