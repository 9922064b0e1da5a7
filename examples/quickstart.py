"""The shortest use from Python: open a target, choose a strategy, iterate over the text.

uv run python examples/quickstart.py [MODEL.gguf]
"""

import sys

from power_core import open_session

model = sys.argv[1] if len(sys.argv) > 1 else None  # None: the small default target

with open_session(model=model, spec="mtp" if model is None else "prompt-lookup", draft_max=4) as session:
    generation = session.generate("def fibonacci(n):\n", max_tokens=48)
    for piece in generation:
        print(piece.text, end="", flush=True)

report = generation.report
print(f"\n\n{report.strategy}: {report.emitted_tokens} tokens in {report.target_passes} target passes")
