"""Which contests there are: fair by construction, and named as `--only` finds them."""

from __future__ import annotations

from pathlib import Path

import pytest
from peers.contests import ALL, PEERS, SERVERS, ContestMaker, Options
from peers.llama_server import NAME as LLAMA_SERVER
from peers.records import POWER
from peers.runner import TokenPrompt
from peers.workloads import Workload


def maker(peers=PEERS) -> ContestMaker:
    options = Options(
        peers=peers, llama_server=Path("server"), python=Path("python"), threads=2, prompts=3, max_tokens={"zoo": 8}
    )
    prompt = TokenPrompt(name="0", tokens=(1, 2))
    workload = Workload(
        model=Path("t.gguf"), sha256="0" * 64, prompts=(prompt,), warmup=prompt, max_tokens=8, ctx_tokens=64
    )
    return ContestMaker(options, workload)


CONTESTS = [make(maker(), name, strategy) for name, _, make, strategy in ALL]


@pytest.mark.parametrize("contest", CONTESTS, ids=lambda contest: contest.name)
def test_power_is_the_reference_and_names_differ(contest):
    names = [subject.name for subject in contest.subjects]
    assert contest.subjects[0].side == POWER
    assert len(set(names)) == len(names)
    assert all(subject.goal is None for subject in contest.subjects if subject.side == POWER)
    assert all(subject.side == subject.name for subject in contest.subjects[1:] if subject.side not in (POWER, *PEERS))


@pytest.mark.parametrize("strategy", ["mtp", "dflash", "dflash2", "dspark"])
def test_everybody_has_the_same_k(strategy):
    (contest,) = [contest for contest in CONTESTS if contest.name.startswith(f"zoo {strategy} K")]
    assert len({subject.draft_max for subject in contest.subjects}) == 1
    assert {subject.side for subject in contest.subjects if subject.goal} == set(SERVERS)


def test_plain_decoding_meets_every_peer_on_both_models():
    plain = [contest for contest in CONTESTS if contest.name.endswith(" off")]
    assert [{subject.side for subject in contest.subjects if subject.goal} for contest in plain] == [set(PEERS)] * 2


def test_goodput_meets_every_width_and_plain_decoding_of_the_server():
    contest = maker().goodput("g", "mtp")
    assert [subject.goal for subject in contest.subjects] == [None, *[1.1] * 5, None]
    assert [subject.side for subject in contest.subjects[1:]] == [LLAMA_SERVER] * 5 + [f"{LLAMA_SERVER} none"]


def test_a_peer_that_is_left_out_takes_no_part():
    for name, _, make, strategy in ALL:
        contest = make(maker(peers=()), name, strategy)
        assert {subject.side for subject in contest.subjects} == {POWER}
