"""NATIVE: what the backend guarantees to whoever builds on it, checked through the protocols alone."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

from power_contract.assertions import check_that
from power_contract.clauses import clause
from power_contract.comparing import live_contexts
from power_contract.loading import subject_plugins
from power_contract.materials import materials
from power_contract.opening import open_bench
from power_contract.oracle import evaluate_next, prefill
from power_contract.subject import ContractSubject
from power_core.errors import Cancelled, ConfigError, NativeError, PowerError, StateError
from power_core.target import ContextSettings, ModelSettings
from power_core.tokens import SequenceRows


@clause("NATIVE-01")
def test_closing_a_drafter_frees_what_it_opened(subject: ContractSubject, target_kind: str) -> None:
    def count() -> int:
        gc.collect()
        return len(live_contexts(bench.target))

    with open_bench(subject, target_kind, find_drafts=True) as bench:
        check_that(bool(bench.draft_contexts), "the drafter's contexts", expected="at least one", actual=0)
        before = count()
        for _ in range(3):
            with bench.twin() as twin:
                twin.feed_committed(twin.prompt(20), [])
                twin.ask(3)
            del twin
        bench.equal("the contexts alive after three drafters were opened and closed", count(), before)
        bench.own.close()
        for context in bench.draft_contexts:
            with pytest.raises(StateError):
                context.length_tokens()


@clause("NATIVE-02")
def test_refused_calls_say_why_and_change_nothing(subject: ContractSubject, target_kind: str) -> None:
    with open_bench(subject, target_kind) as bench:
        prefill(bench.target, bench.prompt(33))
        evaluate_next(bench.target, [5, 6, 7])
        before = [bench.target.logits(row).copy() for row in range(3)]
        wrong = {
            "a hole in the positions": SequenceRows(start_pos=40, tokens=[1]),
            "a position that is taken": SequenceRows(start_pos=3, tokens=[1]),
            "no rows": SequenceRows(start_pos=36, tokens=[]),
            "too many rows": SequenceRows(start_pos=36, tokens=[1] * (bench.target.batch_rows + 1)),
            "a token outside the vocabulary": SequenceRows(start_pos=36, tokens=[bench.n_vocab]),
            "a negative token": SequenceRows(start_pos=36, tokens=[-1]),
            "an unknown sequence": SequenceRows(seq_id=9, start_pos=0, tokens=[1]),
        }
        for name, rows in wrong.items():
            with pytest.raises(PowerError) as caught:
                bench.target.evaluate((rows,), kernels="decode")
            known = isinstance(caught.value, ConfigError | NativeError) and len(str(caught.value)) > 20
            check_that(
                known,
                f"the error for {name}",
                expected="ConfigError or NativeError with a text",
                actual=repr(caught.value),
            )
            bench.equal(f"the length after {name}", bench.target.length_tokens(), 36)
            bench.equal(f"stale after {name}", bench.target.is_stale(), False)
        evaluate_next(bench.target, [8])
        bench.target.clear()
        prefill(bench.target, bench.prompt(33))
        evaluate_next(bench.target, [5, 6, 7])
        same = all(np.array_equal(bench.target.logits(row), each) for row, each in enumerate(before))
        check_that(same, "the logits", expected="as before", actual="others")


@clause("NATIVE-03")
def test_a_row_is_the_same_in_a_block_and_alone(subject: ContractSubject, target_kind: str) -> None:
    with open_bench(subject, target_kind) as bench:
        tokens = [token % bench.n_vocab for token in (5, 90, 17, 230, 44, 301, 8)][: bench.settings.draft_max + 1]
        for length in (1, 31, 40):
            prompt = bench.prompt(length)
            alone = bench.oracle.logits_after(prompt, [], tokens)
            hidden = bench.oracle.replay(prompt, tokens)[-len(tokens) :]
            for width in range(1, len(tokens) + 1):
                prefill(bench.target, prompt)
                evaluate_next(bench.target, tokens[:width])
                rows = np.stack([bench.target.logits(row) for row in range(width)])
                check_that(
                    np.array_equal(rows, alone[:width]),
                    f"the logits of a block of {width} rows",
                    expected="those of single rows",
                    actual=np.abs(rows - alone[:width]).max(),
                )
                taps = bench.target.read_taps(0, width)
                for name in ("nextn", "layers"):
                    found = getattr(taps, name)
                    if found is not None:
                        single = np.concatenate([getattr(each, name) for each in hidden[:width]])
                        check_that(
                            np.array_equal(found, single),
                            f"the `{name}` rows of a block of {width} rows",
                            expected="those of single rows",
                            actual=np.abs(found - single).max(),
                        )


@clause("NATIVE-04")
def test_a_second_thread_is_refused_and_may_only_abort(subject: ContractSubject, target_kind: str) -> None:
    with open_bench(subject, target_kind, ctx=1024, batch=512) as bench:
        for _ in range(10):
            bench.target.clear()
            outcome = evaluate_beside(bench.target, list(bench.prompt(512)))
            if "StateError" in outcome:
                break
        check_that(
            "StateError" in outcome,
            "calls beside a running evaluation",
            expected="StateError",
            actual=sorted(set(outcome)),
        )
        thread = threading.Thread(target=bench.target.abort)
        thread.start()
        thread.join()
        with pytest.raises(Cancelled):
            evaluate_next(bench.target, [1])
        bench.target.clear_abort()
        bench.target.clear()
        evaluate_next(bench.target, [1])


def evaluate_beside(target: Any, prompt: list[int]) -> list[str]:
    """Evaluate in another thread and call the context from this one meanwhile; return what the calls gave."""
    rows = (SequenceRows(start_pos=0, tokens=prompt, logits="last"),)
    thread = threading.Thread(target=lambda: target.evaluate(rows, kernels="decode"))
    outcome = []
    thread.start()
    while thread.is_alive():
        try:
            target.argmax(0)
            outcome.append("answer")
        except PowerError as error:
            outcome.append(type(error).__name__)
    thread.join()
    return outcome


@clause("NATIVE-05")
def test_what_is_closed_refuses_and_closes_again(subject: ContractSubject, target_kind: str) -> None:
    backend = subject_plugins(subject).backend()
    model = backend.open_model(ModelSettings(path=materials().target(target_kind)), None)
    settings = ContextSettings(ctx_tokens=64, batch_rows=16, threads=1)
    first, second = model.open_context(settings), model.open_context(settings)
    evaluate_next(first, [1, 2, 3])
    first.close()
    first.close()
    with pytest.raises(StateError):
        evaluate_next(first, [4])
    evaluate_next(second, [1, 2, 3])
    model.close()
    model.close()
    for call in (lambda: evaluate_next(second, [4]), lambda: second.length_tokens(), lambda: second.argmax(0)):
        with pytest.raises(StateError):
            call()
    second.close()


@clause("NATIVE-06")
def test_a_drafter_changes_neither_the_targets_memory_nor_its_last_rows(
    subject: ContractSubject, target_kind: str
) -> None:
    with open_bench(subject, target_kind) as bench:
        bench.feed_committed(bench.prompt(33), [5, 6])
        evaluate_next(bench.target, [7, 8, 9])
        before = [bench.target.logits(row).copy() for row in range(3)]
        computed_ns = bench.target.compute_ns
        bench.ask(7, n_past=35)
        bench.equal("the target's compute in nanoseconds", bench.target.compute_ns, computed_ns)
        bench.equal("the length of the target's memory", bench.target.length_tokens(), 38)
        same = all(np.array_equal(bench.target.logits(row), each) for row, each in enumerate(before))
        check_that(same, "the target's last rows", expected="as before the proposal", actual="others")
