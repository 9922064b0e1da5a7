"""The target of a drafter that runs on this library: nothing else has its hidden rows and its shared weights."""

from __future__ import annotations

from power_core.errors import UnsupportedStrategyError
from power_core.plugins.types import DrafterContext
from power_native.context import NativeContext
from power_native.model import NativeModel


def native_target(context: DrafterContext, strategy: str) -> tuple[NativeModel, NativeContext]:
    """Return the target's model and context as the library's own.

    Raises:
        UnsupportedStrategyError: the target runs on another backend; ``strategy`` is named.
    """
    model, target = context.target_model, context.target_context
    if not isinstance(model, NativeModel) or not isinstance(target, NativeContext):
        raise UnsupportedStrategyError(
            f"the target runs on {type(model).__name__}, but strategy '{strategy}' needs the llama.cpp backend",
            requested=strategy,
            hint="run the target with power-native",
        )
    return model, target
