"""Splits and prompts: nothing that is measured was trained on."""

import json
from pathlib import Path

from recipe.corpus import read_split, split_of

ZOO = Path(__file__).resolve().parents[1]


def test_prompts_come_from_held_out_files_only():
    prompts = json.loads((ZOO / "prompts.json").read_text(encoding="utf-8"))
    assert len(prompts) == len({prompt["text"] for prompt in prompts}) == 40
    assert {split_of(prompt["file"]) for prompt in prompts} == {"heldout"}


def test_splits_share_no_file_and_training_is_by_far_the_largest():
    paths = {split: {file.path for file in read_split(split)} for split in ("training", "validation", "heldout")}
    assert not paths["training"] & paths["validation"]
    assert not (paths["training"] | paths["validation"]) & paths["heldout"]
    assert len(paths["training"]) > 20 * len(paths["heldout"]) > 0


def test_as_many_files_as_asked_for():
    assert [file.path for file in read_split("heldout", 3)] == [file.path for file in read_split("heldout")[:3]]
