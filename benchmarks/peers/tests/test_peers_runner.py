"""The harness of the peers' benchmark with engines that are scripted: no model, no clock of the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from peers import run
from peers.engines import Answer, PeerError
from peers.records import POWER, ContestRecord, PeersRecord, read_record, write_record
from peers.report import Figures, report
from peers.runner import Contest, Subject, TokenPrompt, first_difference, run_contest

WARMUP = TokenPrompt(name="warm-up", tokens=(99,))
PROMPTS = tuple(TokenPrompt(name=str(number), tokens=(number,)) for number in range(5))
MAX_TOKENS = 4


class FakeClock:
    """Seconds that pass only when an engine answers."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@attrs.define
class FakeEngine:
    """Answers by script and writes down what it was asked."""

    name: str
    events: list[tuple[str, str]]
    clock: FakeClock
    answer: Callable[[int], tuple[int, ...]]
    decode_ns: int = 1_000
    fail_at: str = ""

    def start(self) -> dict[str, str]:
        self._event("start")
        return {"version": f"{self.name} 1"}

    def generate(self, prompt: Sequence[int], max_tokens: int) -> Answer:
        self._event(f"generate {prompt[0]}")
        self.clock.now_s += 1.0
        tokens = self.answer(prompt[0])
        return Answer(tokens=tokens, decode_ns=self.decode_ns, total_ns=10 * self.decode_ns, drafted_tokens=2)

    def close(self) -> None:
        self.events.append((self.name, "close"))

    def _event(self, event: str) -> None:
        self.events.append((self.name, event))
        if event == self.fail_at:
            raise PeerError(f"{self.name} fails at {event}")


class Stage:
    """Makes contests of fake engines that share one list of events and one clock."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.clock = FakeClock()

    def subject(self, name: str, side: str, **engine) -> Subject:
        settings = {"answer": lambda prompt: (prompt, 1, 2, 3), **engine}
        return Subject(
            name=name,
            side=side,
            strategy="off",
            goal=None if side == POWER else 1.0,
            open=lambda: FakeEngine(name, self.events, self.clock, **settings),
        )

    def run(self, subjects: Sequence[Subject], seconds: float = 1e9, prompts=PROMPTS) -> ContestRecord:
        contest = Contest(
            name="fakes",
            model="fake.gguf",
            model_sha256="0" * 64,
            prompts=tuple(prompts),
            warmup=WARMUP,
            max_tokens=MAX_TOKENS,
            subjects=tuple(subjects),
        )
        return run_contest(contest, seconds, self.clock)

    def pair(self, **peer) -> list[Subject]:
        return [self.subject("exact", POWER), self.subject("server", "server", **peer)]

    def of(self, event: str) -> list[str]:
        return [name for name, known in self.events if known == event]


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_everybody_is_opened_warmed_up_and_closed_around_every_pass(stage):
    record = stage.run(stage.pair(), seconds=40.0)
    passes = max(sample.repeat for sample in record.samples) + 1
    assert passes == 3, "12 answers a pass, and one more would end after 40 seconds"
    assert stage.of("start") == ["exact", "server"] * passes
    assert stage.of("generate 99") == ["exact", "server"] * passes
    assert sorted(stage.of("close")) == sorted(["exact", "server"] * passes)
    assert all(sample.prompt != WARMUP.name for sample in record.samples)


def test_every_subject_runs_first_equally_often(stage):
    subjects = [stage.subject(name, POWER if name == "a" else name) for name in "abc"]
    record = stage.run(subjects, seconds=18 * 6.0)
    first = [sample.subject for sample in record.samples if sample.place == 0]
    assert {first.count(name) for name in "abc"} <= {len(first) // 3, len(first) // 3 + 1}


def test_the_first_pass_ends_between_two_prompts_when_time_is_over(stage):
    record = stage.run(stage.pair(), seconds=5.0)
    assert {sample.prompt for sample in record.samples} == {"0", "1"}
    assert len(record.samples) == 4


def test_one_prompt_runs_however_short_the_time(stage):
    assert len(stage.run(stage.pair(), seconds=0.0).samples) == 2


@pytest.mark.parametrize("moment", ["start", "generate 99", "generate 2"])
def test_whoever_was_opened_is_closed_after_a_failure(stage, moment):
    with pytest.raises(PeerError, match=f"fails at {moment}"):
        stage.run(stage.pair(fail_at=moment))
    assert sorted(stage.of("close")) == ["exact", "server"]


@given(tokens=st.lists(st.integers(0, 2), max_size=6), reference=st.lists(st.integers(0, 2), max_size=6))
def test_the_first_difference_is_where_the_common_beginning_ends(tokens, reference):
    place = first_difference(tokens, reference)
    assert (place is None) == (tokens == reference)
    if place is not None:
        assert tokens[:place] == reference[:place]
        assert tokens[place : place + 1] != reference[place : place + 1]


def test_outputs_are_compared_with_the_first_subject_of_the_same_turn(stage):
    record = stage.run(stage.pair(answer=lambda prompt: (prompt, 1, 7 if prompt == 3 else 2, 3)), seconds=0.0)
    assert Figures(record).first_differences("server") == {"0": None}
    record = stage.run(stage.pair(answer=lambda prompt: (prompt, 1, 7 if prompt == 3 else 2, 3)), seconds=30.0)
    assert Figures(record).first_differences("server") == {"0": None, "1": None, "2": None, "3": 2, "4": None}
    assert Figures(record).first_differences("exact") == dict.fromkeys("01234")


def test_a_ratio_is_that_of_pairs_and_its_goal_is_judged_by_the_interval(stage):
    record = stage.run(stage.pair(decode_ns=1_250), seconds=30.0)
    (standing,) = Figures(record).standings()
    assert standing.ratio == pytest.approx(1.25)
    assert (standing.least, standing.most, standing.of_totals) == pytest.approx((1.25, 1.25, 1.25))
    assert standing.power_rate == pytest.approx(3 / 1_000e-9)
    assert standing.end_to_end == pytest.approx(1.25)
    assert standing.verdict == "1.00: reached"
    (standing,) = Figures(stage.run(stage.pair(decode_ns=800), seconds=30.0)).standings()
    assert standing.interval is not None
    assert standing.verdict == "1.00: **missed**"


def test_a_peers_best_subject_counts_and_its_goal_with_it(stage):
    subjects = [
        stage.subject("goodput", POWER),
        stage.subject("server K=1", "server", decode_ns=900),
        stage.subject("server K=2", "server", decode_ns=700),
        attrs.evolve(stage.subject("server none", "server, off", decode_ns=500), goal=None),
    ]
    fixed, plain = Figures(stage.run(subjects, seconds=30.0)).standings()
    assert (fixed.peer, fixed.goal) == ("server K=2", 1.0)
    assert fixed.ratio == pytest.approx(0.7)
    assert (plain.peer, plain.verdict) == ("server none", "-")


def test_divisions_do_not_mix_except_for_the_first_subject(stage):
    subjects = [
        stage.subject("exact", POWER),
        attrs.evolve(stage.subject("fast bare", POWER, decode_ns=500), division="bare"),
        stage.subject("server", "server", decode_ns=900),
        attrs.evolve(stage.subject("server bare", "server bare", decode_ns=600), division="bare", goal=None),
    ]
    standings = Figures(stage.run(subjects, seconds=30.0)).standings()
    assert [(each.power, each.peer) for each in standings] == [
        ("exact", "server"),
        ("exact", "server bare"),
        ("fast bare", "server bare"),
    ]


def test_a_prompt_that_somebody_ends_early_gives_no_rate(stage):
    record = stage.run(stage.pair(answer=lambda prompt: (prompt, 1, 2, 3)[: 2 if prompt == 1 else 4]), seconds=30.0)
    figures = Figures(record)
    assert figures.left_out == ("1",)
    assert {sample.prompt for sample in figures.full("exact")} == {"0", "2", "3", "4"}
    assert "1 prompts that somebody ended early" in report(_run_of(record))


def test_a_contest_without_a_whole_answer_still_has_a_report(stage):
    record = stage.run(stage.pair(answer=lambda prompt: (prompt,)), seconds=30.0)
    assert Figures(record).standings() == []
    assert "| fakes | server |" in report(_run_of(record))


def test_the_file_keeps_everything_that_the_report_needs(stage, tmp_path):
    record = _run_of(stage.run(stage.pair(decode_ns=1_250), seconds=30.0))
    path = tmp_path / "peers.json"
    write_record(record, path)
    assert read_record(path) == record
    assert report(read_record(path)) == report(record)
    samples = [line for line in path.read_text().splitlines() if '"output_sha256"' in line]
    assert len(samples) == len(record.contests[0].samples)


def test_the_report_names_both_sides_the_spread_and_the_versions(stage):
    text = report(_run_of(stage.run(stage.pair(decode_ns=1_250), seconds=30.0)))
    assert "server server 1" in text
    assert "**1.250**" in text
    assert "1.250 to 1.250" in text
    assert "5 of 5" in text


@pytest.fixture
def no_signals(monkeypatch):
    monkeypatch.setattr(run.signal, "signal", lambda number, handler: None)


@pytest.mark.usefixtures("no_signals")
def test_render_writes_the_section_of_a_recorded_run_and_nothing_else(stage, tmp_path, monkeypatch, capsys):
    record = _run_of(stage.run(stage.pair(decode_ns=1_250), seconds=30.0))
    results, page = tmp_path / "peers.json", tmp_path / "performance.md"
    write_record(record, results)
    before = results.read_bytes()
    page.write_text("head\n<!-- peers-1-threads: begin -->\nold\n<!-- peers-1-threads: end -->\ntail\n")
    monkeypatch.setattr(run, "PAGE", page)
    monkeypatch.setattr("sys.argv", ["run.py", "--render", "--write-docs", "--json", str(results)])
    run.main()
    assert (
        page.read_text()
        == f"head\n<!-- peers-1-threads: begin -->\n{report(record)}\n<!-- peers-1-threads: end -->\ntail\n"
    )
    assert report(record) in capsys.readouterr().out
    assert results.read_bytes() == before


@pytest.mark.usefixtures("no_signals")
def test_an_error_of_a_peer_ends_the_command_with_its_hint(monkeypatch):
    def fail(arguments):
        raise PeerError("xllamacpp ended", hint="install it")

    monkeypatch.setattr(run, "run", fail)
    monkeypatch.setattr("sys.argv", ["run.py"])
    with pytest.raises(SystemExit, match=r"error\[bench\.peer\]: xllamacpp ended Hint: install it\."):
        run.main()


def _run_of(contest: ContestRecord) -> PeersRecord:
    return PeersRecord(
        recorded_at="2000-01-01T00:00:00+00:00",
        threads=1,
        batch_tokens=512,
        environment={"cpu": "a processor", "load_before": [0.25, 0.0, 0.0]},
        contests=(contest,),
    )
