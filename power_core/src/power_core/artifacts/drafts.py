"""Whether a file can be used as the draft of a target, and of which kind it is; opens no model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from power_core.artifacts.gguf import GgufHeader
from power_core.artifacts.pairing import PAIR_PREFIX, check_tokenizer_pair
from power_core.artifacts.roles import FileRole, Role, describe_role, dflash_kinds
from power_core.artifacts.validation import ArtifactValidator, CheckList, DraftValidator, ValidationReport
from power_core.artifacts.wording import shorten
from power_core.errors import ArtifactContractError, ArtifactPairingError, PluginContractError, PowerError
from power_core.strategies import STRATEGY_DISTRIBUTIONS

Answer = TypeVar("Answer")

NOT_A_DRAFT: dict[Role, str] = {
    "target": "give a drafter that was trained for the target; a whole model cannot draft here",
    "target-with-nextn": "it is a target that drafts for itself: power generate --model FILE --spec mtp",
    "nextn-companion": "MTP blocks cannot be a draft; give the target that contains its own, and --spec mtp",
    "split shard": "a draft has to be one file; join the shards or convert the draft again",
    "adapter": "leave it out; adapters are not used",
    "projector": "leave it out; only text is decoded",
    "vocab-only": "give the draft that holds the weights",
    "other": "give a GGUF drafter that was trained for the target",
}


def check_draft(target: GgufHeader, draft: GgufHeader, validators: Iterable[ArtifactValidator]) -> str:
    """Check a draft and its pairing with a target; return its kind, the name of the strategy that reads it.

    Args:
        target: A target that ``check_target`` accepts.
        draft: The draft.
        validators: Those of the installed plugins; only ``DraftValidator`` values are asked.

    Raises:
        ArtifactContractError: no kind claims the file (``draft.role``), several do (``draft.kinds``), or its kind's
            validator refuses it.
        ArtifactPairingError: a valid draft, but not of this target.
        PluginContractError: a validator raised something else.
    """
    claims = [each for each in validators if isinstance(each, DraftValidator) and _claims(each, draft)]
    if len(claims) != 1:
        raise _not_one_kind(draft, [each.kind for each in claims])
    validator = claims[0]
    _ask(validator, lambda: validator.validate(draft)).raise_first()
    tokenizers = CheckList(PAIR_PREFIX)
    check_tokenizer_pair(target, draft, tokenizers)
    _raise_pairing(tokenizers.report(validator.kind, draft.path), target)
    _raise_pairing(_ask(validator, lambda: validator.validate_pair(target, draft)), target)
    return validator.kind


def _claims(validator: ArtifactValidator, draft: GgufHeader) -> bool:
    """A key that is missing or of another type is no claim."""
    try:
        return _ask(validator, lambda: validator.matches(draft))
    except ArtifactContractError:
        return False


def _ask(validator: ArtifactValidator, question: Callable[[], Answer]) -> Answer:
    """Return a validator's answer; an error that is no ``PowerError`` becomes its plugin's, with its cause chained."""
    try:
        return question()
    except PowerError:
        raise
    except Exception as error:
        raise PluginContractError(
            f"the validator of {validator.kind!r} failed: {error!r}",
            hook="power_artifact_validators",
            hint="report it to the plugin's author",
        ) from error


def _not_one_kind(draft: GgufHeader, kinds: list[str]) -> ArtifactContractError:
    role = describe_role(draft)
    if kinds:
        return ArtifactContractError(
            shorten(f"{draft.path} claims to be of several kinds: {', '.join(kinds)}. {role.sentence}"),
            path=str(draft.path),
            check_id="draft.kinds",
            expected="one kind",
            actual=kinds,
            hint="convert the checkpoint again; a draft has one kind",
        )
    return ArtifactContractError(
        shorten(f"{draft.path} cannot be used as a draft. {role.sentence}"),
        path=str(draft.path),
        check_id="draft.role",
        expected="a draft of an installed kind",
        actual=role.role,
        hint=_what_to_do(draft, role),
    )


def _what_to_do(draft: GgufHeader, role: FileRole) -> str:
    if role.role == "dflash-family draft":
        packages = [STRATEGY_DISTRIBUTIONS[kind] for kind in dflash_kinds(draft)]
        return f"its plugin is not installed: pip install {' '.join(packages)}"
    return NOT_A_DRAFT.get(role.role, role.next_step)


def _raise_pairing(report: ValidationReport, target: GgufHeader) -> None:
    if not report.failures:
        return
    first, *others = report.failures
    more = f" ({len(others)} more failed: {', '.join(check.id for check in others)})" if others else ""
    raise ArtifactPairingError(
        shorten(f"{report.path} does not belong to {target.path}: {first.message}{more}"),
        path=str(report.path),
        check_id=first.id,
        expected=first.expected,
        actual=first.actual,
        hint="give the draft that was trained for this target, converted with the target's own tokenizer",
    )
