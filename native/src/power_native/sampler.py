"""Samplers over a context's logits. Greedy choice keeps no state; every other one does, and can go back."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

from power_core.errors import ConfigError
from power_core.sampler import Sampler, SamplingSettings
from power_core.tokens import TokenId
from power_native import _raw
from power_native._handles import NativeHandle

if TYPE_CHECKING:
    from power_native.context import NativeContext

_RANDOM_SEED = 2**32 - 1


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
    """One native sampler: random state and the penalties' window. Freed when closed or no longer referenced."""

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
    """Draws with the library's chain (``power_core.sampler.Sampler``): deterministic for a seed and a history.

    A snapshot is a clone of the whole state. ``restore`` puts a clone of the snapshot in place, so one snapshot can be
    restored repeatedly.
    """

    def __init__(self, context: NativeContext, settings: SamplingSettings) -> None:
        self._context = context
        self._state = SamplerState(context, _open(context, settings))
        self._token = ctypes.c_int32()
        self._token_ref = ctypes.byref(self._token)

    def begin(self, prompt: Sequence[TokenId]) -> None:
        """Reset the random state and take the prompt into the penalties' window."""
        self._state._call("power_sampler_reset")
        tokens = (ctypes.c_int32 * max(len(prompt), 1))(*prompt)
        self._state._call("power_sampler_accept", tokens, len(prompt))

    def sample(self, row: int) -> TokenId:
        """Draw at a row of the last evaluation and accept the drawn token."""
        context = self._context._pointer("power_sampler_sample")
        self._state._call("power_sampler_sample", context, row, self._token_ref)
        return self._token.value

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
    if settings.seed == _RANDOM_SEED:
        raise ConfigError(
            f"`seed` is {settings.seed}, which the library reads as a wish for a random seed",
            field="seed",
            value=settings.seed,
            allowed=f"0..{_RANDOM_SEED - 1}",
            hint="choose another seed",
        )
    parameters = _raw.power_sampler_params(
        size=ctypes.sizeof(_raw.power_sampler_params),
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        min_p=settings.min_p,
        typical_p=settings.typical_p,
        repeat_penalty=settings.repeat_penalty,
        frequency_penalty=settings.frequency_penalty,
        presence_penalty=settings.presence_penalty,
        repeat_last_n=_window_tokens(context, settings),
        seed=settings.seed,
    )
    model = context.model._pointer("power_sampler_open")
    return context._library.open_handle("power_sampler_open", model, ctypes.byref(parameters))


def _window_tokens(context: NativeContext, settings: SamplingSettings) -> int:
    """Tokens the penalties look back on: -1 means the whole context, and no window is larger than it.

    The library allocates the window at once and every snapshot copies it.
    """
    if settings.repeat_last_n < 0:
        return context.ctx_tokens
    return min(settings.repeat_last_n, context.ctx_tokens)
