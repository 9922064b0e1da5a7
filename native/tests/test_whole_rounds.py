"""Rounds in one call leave what rounds step by step leave: same tokens, same report, same states, whatever happens."""

import attrs
import power_zoo
import pytest

from power_core.bench.synthetic import AcceptanceProfile, open_synthetic_session, record_truth
from power_core.drafter import DraftRequest
from power_core.errors import NativeCallError, StateError, TransactionAborted
from power_core.opening import open_session
from power_core.settings import SessionSettings
from power_core.testing.drafts import build_tiny_draft
from power_core.testing.models import build_tiny_target
from power_core.transaction import VerifyTransaction
from power_core.whole_rounds import NO_COUNTS, offered_rounds

pytestmark = pytest.mark.native

KINDS = ("mtp", "dflash", "dflash2", "dspark")
COMMON = {"ctx": 512, "batch": 64, "threads": 1}
TEXT = "def fibonacci(n):\n"
TOKENS = 60


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Return model and draft of a kind on a target kind."""
    folder = tmp_path_factory.mktemp("tiny")

    def files(kind, target):
        model = build_tiny_target(folder / f"{target}.gguf", kind=target)
        if kind == "mtp":
            return {"model": model, "spec": kind}
        draft = build_tiny_draft(folder / f"{kind}-{target}.gguf", kind=kind, target=target)
        return {"model": model, "draft": draft, "spec": kind}

    return files


def zoo(kind):
    """Return the trained target and its drafter."""
    return {"model": power_zoo.target_path(), "draft": power_zoo.draft_path(kind), "spec": kind}


class Both:
    """One session whose rounds go in one call or step by step, as it is told; counts those in one call."""

    def __init__(self, monkeypatch, *, opening=open_session, **settings):
        self.session = opening(SessionSettings(**{**COMMON, **settings}))
        self.offered = self.session._rounds
        self.whole_rounds = 0
        run_whole = VerifyTransaction.run_whole

        def counted(transaction, max_tokens):
            self.whole_rounds += 1
            return run_whole(transaction, max_tokens)

        monkeypatch.setattr(VerifyTransaction, "run_whole", counted)

    def generate(self, whole, prompt=TEXT, **request):
        self.session._rounds = self.offered if whole else None
        return self.session.generate(prompt, **{"max_tokens": TOKENS, **request})

    def trace(self, whole, **request):
        """Return everything that a request leaves behind, times left out."""
        result = self.generate(whole, **request).result()
        report = attrs.asdict(result.report)
        del report["timings_ns"]
        return {
            "tokens": result.tokens,
            "text": result.text,
            "finish_reason": result.finish_reason,
            "report": report,
            "memory": self.memory(),
            "drafts": self.next_drafts(),
        }

    def memory(self):
        facts = self.session.context.check_integrity()
        return self.session.committed_tokens, facts.length_tokens, facts.stale

    def next_drafts(self):
        """Return what the drafter says next; its state shows there."""
        drafter, history = self.session._drafter, self.session._sequence.history
        drafter = getattr(drafter, "_inner", drafter)
        if drafter._graph.length_tokens(0) != len(history) - 1:
            return None
        mark = drafter.checkpoint()
        request = DraftRequest(n_past=len(history) - 1, anchor=history[-1], limit_tokens=4)
        tokens = list(drafter.propose(request).tokens)
        drafter.restore(mark)
        return tokens

    def check(self, **request):
        steps, whole = self.trace(False, **request), self.trace(True, **request)
        assert whole == steps
        return whole


@pytest.fixture
def both(monkeypatch):
    opened = []

    def opening(**settings):
        opened.append(Both(monkeypatch, **settings))
        return opened[-1]

    yield opening
    for each in opened:
        each.session.close()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"draft_max": 7, "verify_rows": 3},
        {"draft_max": 5, "verify_rows": 1},
        {"draft_max": 7, "verify_shape": "fixed", "verify_rows": 4},
        {"draft_max": 4, "draft_min": 3, "draft_p_min": 0.6},
        {"draft_max": 7, "scheduler": "adaptive", "snapshots": 3},
        {"draft_max": 7, "snapshots": 5, "verify_rows": "all"},
    ],
    ids=lambda settings: "-".join(f"{name}={value}" for name, value in settings.items()) or "default",
)
@pytest.mark.parametrize("kind", ["mtp", "dspark"])
def test_a_trained_drafters_rounds_leave_the_same(both, kind, settings):
    if kind == "dspark" and "draft_p_min" in settings:
        settings = {**settings, "draft_p_min": 0.3}
    pair = both(**zoo(kind), **settings)
    trace = pair.check()
    assert pair.whole_rounds > 0
    assert trace["report"]["accepted_tokens"] > 0
    end = trace["tokens"][TOKENS // 2]
    assert pair.check(stop_tokens=(end,))["finish_reason"] == "stop_token"


@pytest.mark.parametrize("target", ["hybrid", "attention", "sliding-window"])
@pytest.mark.parametrize("kind", KINDS)
def test_rounds_of_every_memory_leave_the_same(both, tiny, kind, target):
    if kind == "mtp" and target != "hybrid":
        pytest.skip("only the hybrid target has a head")
    pair = both(**tiny(kind, target), draft_max=4)
    pair.check(prompt=list(range(5, 45)))
    pair.check(prompt=[7], max_tokens=9)
    assert pair.whole_rounds > 0


@pytest.mark.parametrize("kind", ["mtp", "dspark"])
def test_a_rejection_beyond_the_window_is_replayed_as_in_steps(both, tiny, kind):
    trace = both(**tiny(kind, "hybrid"), draft_max=7, snapshots=3, verify_rows="all").check(prompt=list(range(5, 45)))
    assert trace["report"]["replays"] > 0


SAMPLERS = {
    "drawn": {"temperature": 0.8},
    "filters": {"temperature": 1.0, "top_k": 20, "top_p": 0.9, "min_p": 0.02, "typical_p": 0.95},
    "windows": {"repeat_penalty": 1.3, "dry_multiplier": 0.8, "temperature": 0.5},
    "grammar": {"temperature": 1.0, "grammar": 'root ::= [a-z ]{1,30} "." [ -~\\n]*'},
    "greedy with a bias": {"logit_bias": ((5, 1.0),)},
}


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("kind", KINDS)
def test_rounds_draw_as_steps_do(both, kind, sampler):
    pair = both(**zoo(kind), verify_rows=3)
    traces = [pair.check(**SAMPLERS[sampler], seed=seed, max_tokens=90) for seed in (1, 2)]
    assert pair.whole_rounds > 0
    assert any(trace["report"]["accepted_tokens"] for trace in traces)


@pytest.mark.parametrize("nodes", [3, 150, 400])
def test_an_abort_gives_draws_back(both, nodes):
    drawn = {"temperature": 0.9, "seed": 5}
    pair = both(**zoo("dspark"), draft_max=4, verify_rows=2)
    expected = pair.generate(False, **drawn).result().tokens
    for whole in (False, True):
        assert aborted(pair, whole, "target", nodes, **drawn)["tokens"] == expected
    assert pair.whole_rounds > 0


def test_no_token_left_fails_as_in_steps(both):
    pair = both(**zoo("mtp"), draft_max=4)
    forbidden = tuple((token, float("-inf")) for token in range(256))
    request = {"grammar": 'root ::= "x"', "logit_bias": forbidden}
    errors = []
    for whole in (False, True):
        with pytest.raises(NativeCallError) as caught:
            pair.generate(whole, **request).result()
        errors.append(str(caught.value).split(": ", 1)[1])
    assert errors[0] == errors[1]


def test_a_closed_sampler_is_refused(both):
    pair = both(**zoo("mtp"), draft_max=4)
    generation = pair.generate(True, temperature=1.0)
    next(generation)
    pair.session._sampler.close()
    with pytest.raises(StateError, match="closed"):
        list(generation)


@pytest.mark.parametrize(
    "request_settings",
    [{"stop": ("return",)}, {"logprobs": 2}, {"logprobs": 2, "temperature": 1.0}],
    ids=["stop string", "log-probabilities", "of draws"],
)
def test_what_needs_more_than_a_sampler_goes_step_by_step(both, request_settings):
    pair = both(**zoo("dspark"))
    pair.check(**request_settings)
    assert pair.whole_rounds == 0


def test_a_guarded_session_goes_step_by_step(both):
    pair = both(**zoo("dspark"), arithmetic="guarded")
    guarded = pair.session._guarantor.guard_threshold is not None
    pair.check()
    assert (pair.whole_rounds == 0) is guarded


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("who", ["target", "drafter"])
def test_an_abort_at_any_step_loses_nothing(both, kind, who):
    pair = both(**zoo(kind), draft_max=4, verify_rows=3)
    expected = pair.generate(False).result().tokens
    stopped = 0
    for nodes in (0, 3, 150, 400):
        steps, whole = (aborted(pair, flag, who, nodes) for flag in (False, True))
        assert whole == steps
        assert whole["tokens"] == expected
        stopped += whole["finish_reason"] == "cancelled"
    assert stopped > 1
    assert pair.whole_rounds > 0


def aborted(pair, whole, who, nodes, **request):
    """Run a request whose first round is stopped after some graph nodes, then go on; return what both leave."""
    generation = pair.generate(whole, **request)
    taken = [next(generation).token]
    context = pair.session.context if who == "target" else pair.session._drafter._graph._context
    context.abort_after(nodes)
    taken += [piece.token for piece in generation if piece.token is not None]
    context.abort_after(-1)
    rest = pair.session.resume(max_tokens=TOKENS - len(taken)).result()
    reports = [attrs.asdict(each) for each in (generation.report, rest.report)]
    for report in reports:
        del report["timings_ns"]
    return {
        "tokens": (*taken, *rest.tokens),
        "finish_reason": generation.finish_reason,
        "reports": reports,
        "memory": pair.memory(),
        "drafts": pair.next_drafts(),
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("round_number", [1, 4])
def test_a_failure_behind_the_last_step_loses_nothing(both, kind, round_number, monkeypatch):
    pair = both(**zoo(kind), draft_max=4)
    expected = pair.generate(False).result().tokens
    run, calls = pair.offered.run, []

    def broken():
        run()
        calls.append(pair.offered.sheet.fed)
        if len(calls) == round_number:
            raise RuntimeError("afterwards")

    monkeypatch.setattr(pair.offered, "run", broken)
    generation, taken = pair.generate(True), []
    with pytest.raises(TransactionAborted):
        taken += (piece.token for piece in generation)
    emitted = generation.report.emitted_tokens
    rest = pair.session.resume(max_tokens=TOKENS - emitted).result()
    assert expected[emitted:] == rest.tokens
    assert pair.memory()[1:] == (len(pair.session._sequence.history) - 1, False)
    assert calls[0] == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("slice_rows", 0),
        ("slice_rows", 65),
        ("max_tokens", 0),
        ("room_tokens", 0),
        ("first_pos", -1),
        ("features_row", 1),
        ("seq_id", 1),
        ("size", 8),
        ("layers", None),
        ("tokens", None),
    ],
)
def test_a_sheet_out_of_range_is_refused(both, field, value):
    pair = both(**zoo("dspark"))
    pair.generate(True, max_tokens=20).result()
    name = {"seq_id": "sequence 1", "size": "power_round"}.get(field, field)
    setattr(pair.offered.sheet, field, value)
    with pytest.raises(NativeCallError, match=name):
        pair.offered.run()


@pytest.mark.parametrize("kind", ["mtp", "dspark"])
def test_states_kept_by_others_outlive_whole_rounds(both, kind):
    pair = both(**zoo(kind))
    session, drafter = pair.session, pair.session._drafter
    generation = pair.generate(True, max_tokens=200)
    kept = []
    for _ in generation:
        history = session._sequence.history
        if not kept or history != kept[-1][0]:
            kept.append((list(history), drafter.checkpoint(), pair.next_drafts()))
    for history, mark, drafts in reversed(kept):
        drafter.restore(mark)
        session._sequence.history[:] = history
        assert pair.next_drafts() == drafts


def test_a_failure_names_its_step_and_counts_are_not_those_of_the_last_round(both):
    pair = both(**zoo("mtp"))
    pair.generate(True, max_tokens=20).result()
    rounds = pair.offered
    rounds.sheet.first_pos += 100
    with pytest.raises(NativeCallError, match="first_pos"):
        rounds.run()
    assert (rounds.sheet.verified, rounds.sheet.fed, rounds.sheet.step) == (0, 0, 1)


def test_a_round_that_was_not_begun_is_not_counted(both, monkeypatch):
    pair = both(**zoo("dspark"), scheduler="adaptive")
    generation = pair.generate(True)
    while not pair.whole_rounds:
        next(generation)

    def fail(seq_id):
        raise StateError("the hand-over failed", state="broken", operation="process")

    monkeypatch.setattr(pair.offered, "_before", fail)
    before = attrs.asdict(generation.report)
    with pytest.raises(StateError, match="hand-over"):
        generation.result()
    assert pair.offered.counts == NO_COUNTS
    assert generation.report.target_calls == before["target_calls"]
    assert generation.report.timings_ns.verify == before["timings_ns"]["verify"]


SYNTHETIC = [{"draft_max": 7}, {"draft_max": 6, "verify_rows": 3}]
CHANGING = {"draft_max": 5, "scheduler": "adaptive"}


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        *((kind, settings) for kind in KINDS for settings in SYNTHETIC),
        *((kind, CHANGING) for kind in KINDS if kind != "dflash2"),
    ],
)
def test_synthetic_drafts_take_the_place_of_the_drafters_own(both, kind, settings):
    with open_session(**COMMON, model=power_zoo.target_path(), spec="off") as off:
        prompt = off.model.vocabulary.tokenize(TEXT)
        truth = record_truth(off, [prompt], TOKENS)
    profile = AcceptanceProfile(probabilities=(0.9, 0.8, 0.7, 0.7, 0.6, 0.6, 0.5), seed=2)
    pair = both(opening=lambda settings: open_synthetic_session(settings, truth, profile), **zoo(kind), **settings)
    trace = pair.check(prompt=prompt)
    assert pair.whole_rounds >= trace["report"]["rounds"] - 1 > 0, "the last one may have no room for drafts"
    assert list(trace["tokens"]) == truth[tuple(prompt)]
    assert 0 < trace["report"]["accepted_tokens"] < trace["report"]["drafted_tokens"]


class Wrapper:
    """Passes everything on, as a stranger's wrapper does."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)


def test_a_wrapped_drafter_is_not_bypassed(both):
    pair = both(**zoo("mtp"))
    assert offered_rounds(pair.session._drafter, pair.session.context) is not None
    assert offered_rounds(Wrapper(pair.session._drafter), pair.session.context) is None
    assert offered_rounds(None, pair.session.context) is None
