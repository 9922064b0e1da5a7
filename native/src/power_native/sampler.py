"""Samplers over a context's logits. Greedy choice keeps no state; every other one does, and can go back."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from power_core.errors import ConfigError, NativeCallError
from power_core.sampler import Sampler, SamplingSettings
from power_core.tokens import TokenId
from power_native import _raw
from power_native._handles import NativeHandle, Pointer
from power_native._sampler_params import sampler_parameters

if TYPE_CHECKING:
    from power_native.context import NativeContext


def open_sampler(context: NativeContext, settings: SamplingSettings) -> Sampler:
    """Return the sampler that ``settings`` ask for; it draws at rows of the context's last evaluation."""
    return GreedySampler(context) if settings.greedy else NativeSampler(context, settings)


class GreedySampler:
    """The largest logit, lowest id on ties (``power_core.sampler.Sampler``). It has no state; snapshots are None."""

    def __init__(self, context: NativeContext) -> None:
        self._context = context

    def begin(self, prompt: Sequence[TokenId]) -> None:
        """Nothing to take in: the choice depends on the row alone."""

    def sample(self, row: int) -> TokenId:
        """The largest logit's token at a row of the last evaluation."""
        return self._context.argmax(row)

    def snapshot(self) -> None:
        """No state, hence None."""

    def restore(self, snapshot: None) -> None:
        """Nothing to restore."""

    def close(self) -> None:
        """Nothing to free."""


class SamplerState(NativeHandle):
    """One native sampler: random states, last tokens, place in the grammar. Freed when closed or not referenced."""

    def __init__(self, context: NativeContext, pointer: object) -> None:
        super().__init__(
            "sampler", context._library, pointer, context._functions.power_sampler_close, parents=(context,)
        )
        self._context = context

    def clone(self) -> SamplerState:
        """Return an independent copy with the same state."""
        pointer = ctypes.c_void_p()
        self._call("power_sampler_clone", ctypes.byref(pointer))
        return SamplerState(self._context, pointer)


class NativeSampler:
    """Draws with the library's samplers (``power_core.sampler.Sampler``): deterministic for a seed and a history.

    A snapshot is a clone of the state; what never changes is shared. ``restore`` puts a clone of the snapshot in place,
    so one snapshot can be restored repeatedly.
    """

    def __init__(self, context: NativeContext, settings: SamplingSettings) -> None:
        self._context = context
        self._state = SamplerState(context, _open(context, settings))
        self._token = ctypes.c_int32()
        self._token_ref = ctypes.byref(self._token)

    def begin(self, prompt: Sequence[TokenId]) -> None:
        """Reset the random states and the grammar, and take the prompt into the windows of penalties and DRY."""
        self._state._call("power_sampler_reset")
        tokens = (ctypes.c_int32 * max(len(prompt), 1))(*prompt)
        self._state._call("power_sampler_accept", tokens, len(prompt))

    def sample(self, row: int) -> TokenId:
        """Draw at a row of the last evaluation and accept the drawn token."""
        context = self._context._pointer("power_sampler_sample")
        self._state._call("power_sampler_sample", context, row, self._token_ref)
        return self._token.value

    @contextmanager
    def lent(self, operation: str) -> Iterator[Pointer]:
        """Give the state's pointer to another call; nobody else draws or closes meanwhile."""
        state = self._state
        if not state._gate.enter(False):
            state._refuse(operation)
        try:
            yield state._pointer(operation)
        finally:
            state._gate.leave()

    def snapshot(self) -> SamplerState:
        """Return a copy of the state; closed when it is dropped."""
        return self._state.clone()

    def restore(self, snapshot: SamplerState) -> None:
        """Return to the snapshot exactly."""
        replaced, self._state = self._state, snapshot.clone()
        replaced.close()

    def close(self) -> None:
        """Free the state; safe to call twice. Snapshots stay usable until they are dropped or the context closes."""
        self._state.close()


def _open(context: NativeContext, settings: SamplingSettings) -> object:
    n_vocab = context.model.info.n_vocab
    for token, _ in settings.logit_bias:
        if token >= n_vocab:
            raise ConfigError(
                f"`logit_bias` names token {token}, the vocabulary has ids 0..{n_vocab - 1}",
                field="logit_bias",
                value=token,
                allowed=f"0..{n_vocab - 1}",
            )
    parameters = sampler_parameters(settings, context.ctx_tokens)
    model = context.model._pointer("power_sampler_open")
    try:
        return context._library.open_handle("power_sampler_open", model, ctypes.byref(parameters))
    except NativeCallError as error:
        if error.status != _raw.POWER_BAD_GRAMMAR:
            raise
        raise _bad_grammar(settings, error) from error


def _bad_grammar(settings: SamplingSettings, error: NativeCallError) -> ConfigError:
    where = "" if settings.grammar_file is None else f" in {str(settings.grammar_file)!r}"
    field = "grammar" if settings.grammar_file is None else "grammar_file"
    return ConfigError(
        f"the grammar{where} cannot be used: {error.detail.splitlines()[0]}",
        field=field,
        value=settings.grammar or str(settings.grammar_file),
        allowed="GBNF text with a rule `root`",
        hint="correct the grammar at the place that is named",
    )
