"""What is wrong when a drafter is called out of order."""

from power_core.errors import StateError
from power_core.tokens import SeqId


def not_begun(operation: str, seq_id: SeqId) -> StateError:
    """Return the error of a call for a sequence that ``begin`` does not know."""
    return StateError(f"sequence {seq_id!r} was not begun", operation=operation, hint="call `begin` first")


def closed(operation: str) -> StateError:
    """Return the error of a call after ``close``."""
    return StateError("the drafter is closed", state="closed", operation=operation, hint="open a new one")


def require_position(operation: str, seq_id: SeqId, position: int, length_tokens: int) -> None:
    """Raise ``StateError`` unless ``position`` is the one that follows ``length_tokens`` tokens."""
    if position != length_tokens:
        message = f"`{operation}` was called at position {position!r} of sequence {seq_id!r}, expected {length_tokens}"
        raise StateError(message, operation=operation, hint="hand over every committed row once, in order")
