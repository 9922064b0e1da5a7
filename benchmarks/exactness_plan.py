"""Which prompts a cell of the exactness matrix decodes: all of them, but for Gemma under fast arithmetic, a sample.

The zoo's target is small, so its prompts go through every drafter. On Gemma a prompt goes through one drafter a group;
which one changes with the prompt's number and with the group, so that over the groups every drafter meets every domain
and size. A sample starts at another prompt in every group.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from exactness_cells import Group

SAMPLE_PROMPTS = 24
START_STRIDE = 14
PASSES = (1 / 3, 1.0)
"""A run takes the first third of every group's prompts, then the rest, so that one that is stopped has seen each."""


def groups(targets: Mapping[str, tuple[str, ...]]) -> list[Group]:
    """Return all groups, the most telling first: two threads before one, each as greedy exact, seeded exact, fast."""
    kinds = [("exact", "greedy"), ("exact", "seeded"), ("fast", "greedy"), ("fast", "seeded")]
    files = [(target, weights) for target, types in targets.items() for weights in types]
    files.sort(key=lambda file: targets[file[0]].index(file[1]))
    return [
        Group(target=target, weights=weights, arithmetic=arithmetic, threads=threads, sampling=sampling)
        for threads, (arithmetic, sampling), (target, weights) in itertools.product((2, 1), kinds, files)
    ]


def prompts_of(number: int, group: Group, n_prompts: int, *, everything: bool) -> list[int]:
    """Return the numbers of the prompts of the group with this number among all, in the order of decoding."""
    sampled = group.target != "zoo" and group.arithmetic == "fast" and not everything
    start = number * START_STRIDE
    return [(start + index) % n_prompts for index in range(min(n_prompts, SAMPLE_PROMPTS) if sampled else n_prompts)]


def assigned(number: int, group: Group, drafters: Sequence[str], prompts: Sequence[int]) -> dict[str, list[int]]:
    """Return the prompts that each drafter of a group decodes."""
    if group.target == "zoo":
        return {drafter: list(prompts) for drafter in drafters}
    chosen: dict[str, list[int]] = {drafter: [] for drafter in drafters}
    for prompt in prompts:
        # Domains recur every six prompts: a shift per six keeps a drafter from meeting one domain alone.
        chosen[drafters[(prompt + prompt // 6 + number) % len(drafters)]].append(prompt)
    return chosen
