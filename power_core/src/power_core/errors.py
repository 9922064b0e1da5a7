"""Typed errors: one code, one sentence, one party to blame.

Every message says what happened, the value, what was expected and what to do next. The command line prints
``error[<code>]: <message>`` and ``hint: <hint>`` and leaves with status 2 for the user's mistakes.
"""

from __future__ import annotations

from collections.abc import Sequence


class PowerError(Exception):
    """Base of every error the project raises on purpose.

    Attributes:
        code: Stable identifier, ``area.reason``.
        hint: What the reader should do next; empty when the message already says it.
    """

    code = "power.error"
    user_mistake = False

    def __init__(self, message: str, *, hint: str = "", code: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        if code is not None:
            self.code = code


class ConfigError(PowerError, ValueError):
    """A setting is outside what is allowed; carries the field, the value and what was allowed."""

    code = "config.invalid"
    user_mistake = True

    def __init__(
        self,
        message: str,
        *,
        field: str = "",
        value: object = None,
        allowed: str = "",
        hint: str = "",
        code: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.field = field
        self.value = value
        self.allowed = allowed


def out_of_range(field: str, value: object, allowed: str, *, hint: str = "") -> ConfigError:
    """Return the error of a setting that is outside what is allowed; ``allowed`` completes "expected ..."."""
    message = f"`{field}` is {value!r}, expected {allowed}"
    return ConfigError(message, field=field, value=value, allowed=allowed, hint=hint)


class PromptError(ConfigError):
    """The prompt cannot be used with this context."""

    code = "config.prompt"


class UnsupportedStrategyError(PowerError):
    """The strategy cannot run on this backend, model or draft; nothing cheaper is used instead."""

    code = "strategy.unsupported"
    user_mistake = True

    def __init__(
        self, message: str, *, requested: str, resolved: str = "", available: Sequence[str] = (), hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.requested = requested
        self.resolved = resolved or requested
        self.available = tuple(available)


class StateError(PowerError, RuntimeError):
    """An operation was called in a state that does not allow it: a programming error of the caller."""

    code = "state.invalid"

    def __init__(
        self, message: str, *, state: str = "", operation: str = "", hint: str = "", code: str | None = None
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.state = state
        self.operation = operation


class ArtifactError(PowerError):
    """A file is not what it has to be."""

    code = "artifact.invalid"
    user_mistake = True

    def __init__(
        self,
        message: str,
        *,
        path: str = "",
        check_id: str = "",
        expected: object = None,
        actual: object = None,
        hint: str = "",
        code: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.path = path
        self.check_id = check_id
        self.expected = expected
        self.actual = actual


class ArtifactNotFoundError(ArtifactError):
    """The path is absent, unreadable or not a regular file."""

    code = "artifact.not_found"


class ArtifactFormatError(ArtifactError):
    """The bytes are not a GGUF that can be read: magic, version, limits, truncation."""

    code = "artifact.format"


class ArtifactContractError(ArtifactError):
    """A readable GGUF breaks the contract of its kind: keys, tensors, shapes."""

    code = "artifact.contract"


class ArtifactDigestMismatch(ArtifactError):
    """The bytes differ from the recorded identity."""

    code = "artifact.digest"


class ArtifactPairingError(ArtifactError):
    """Two files do not belong together."""

    code = "artifact.pairing"


class PluginError(PowerError):
    """A plugin is at fault; carries its distribution and version."""

    code = "plugin.invalid"

    def __init__(
        self,
        message: str,
        *,
        distribution: str = "",
        version: str = "",
        hook: str = "",
        hint: str = "",
        code: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.distribution = distribution
        self.version = version
        self.hook = hook


class PluginLoadError(PluginError):
    """The entry point could not be imported or registered."""

    code = "plugin.load"


class PluginVersionError(PluginError):
    """The plugin was written for another API version."""

    code = "plugin.version"


class PluginConflictError(PluginError):
    """Two plugins claim one name."""

    code = "plugin.conflict"


class PluginContractError(PluginError):
    """A plugin returned something its hook or protocol forbids."""

    code = "plugin.contract"


class TransactionError(PowerError):
    """A verification transaction failed."""

    code = "txn.failed"


class TransactionAborted(TransactionError):
    """The transaction was rolled back because one of its parts failed; the cause is chained."""

    code = "txn.aborted"


class IntegrityError(TransactionError):
    """Recomputed facts contradict the recorded state; the state may not be used further."""

    code = "txn.integrity"


class NativeError(PowerError):
    """The native library failed; carries the symbol, its status, its text and the library's path."""

    code = "native.failed"

    def __init__(
        self,
        message: str,
        *,
        symbol: str = "",
        status: int = 0,
        detail: str = "",
        library: str = "",
        hint: str = "",
        code: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.symbol = symbol
        self.status = status
        self.detail = detail
        self.library = library


class LibraryNotFoundError(NativeError):
    """No native library was found, or it cannot be opened."""

    code = "native.not_found"


class AbiMismatchError(NativeError):
    """The library speaks another ABI than this package."""

    code = "native.abi"


class NativeCallError(NativeError):
    """A native call returned an error status."""

    code = "native.call"


class ModelLoadError(NativeError):
    """The library refused to load the model."""

    code = "native.model_load"


class OutOfMemoryError(NativeError):
    """The model or context does not fit into the memory that is available."""

    code = "native.out_of_memory"
    user_mistake = True


class ContextFullError(NativeError):
    """The context has no free cell for the rows."""

    code = "native.context_full"


class RollbackRefused(NativeError):
    """The cache cannot be truncated to the asked length without a wrong state; use a checkpoint or a rebuild."""

    code = "native.rollback_refused"


class BenchError(PowerError):
    """A benchmark run that proves nothing: the rule that it breaks, and where."""

    code = "bench.invalid"

    def __init__(self, message: str, *, rule: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.rule = rule


class Cancelled(PowerError):
    """The caller cancelled; everything up to the last committed token stays valid."""

    code = "cancelled"

    def __init__(self, message: str = "generation was cancelled", *, committed_tokens: int = 0) -> None:
        super().__init__(message)
        self.committed_tokens = committed_tokens
