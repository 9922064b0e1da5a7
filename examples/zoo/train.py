"""Makes the zoo: text, tokenizer, target, drafters, GGUF files, checks, curves. Run it again to resume.

python examples/zoo/train.py --work FOLDER            everything, about 75 minutes on 2 cores
python examples/zoo/train.py --work FOLDER --tiny     every step in about a minute, for tests
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from recipe.config import read_recipe
from recipe.curves import draw_curves
from recipe.stages import STAGES, Workshop

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Run the stages that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for checkpoints and results")
    parser.add_argument("--config", type=Path, help="configuration file (default: zoo.toml)")
    parser.add_argument("--tiny", action="store_true", help="use tiny.toml")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES), help="stages to run")
    parser.add_argument("--threads", type=int, help="compute threads (default: the configuration's)")
    arguments = parser.parse_args()
    shop = Workshop(recipe=read_recipe(_config(arguments)), folder=arguments.work)
    shop.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(arguments.threads or shop.recipe.threads)
    for stage in arguments.stages:
        print(f"== {stage}", flush=True)
        STAGES[stage](shop)
    if all(shop.path(f"{name}.curve.json").exists() for name in shop.recipe.plans):
        draw_curves(shop.folder, shop.path("curves.png"))


def _config(arguments: argparse.Namespace) -> Path:
    config: Path | None = arguments.config
    return config or HERE / ("tiny.toml" if arguments.tiny else "zoo.toml")


if __name__ == "__main__":
    main()
