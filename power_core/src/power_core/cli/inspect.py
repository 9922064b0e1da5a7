"""``power inspect FILE``: what a GGUF is for, what it holds, and whether it keeps the rules of its kind."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import attrs

from power_core.admission.verify import Admission, check_manifest
from power_core.artifacts.gguf import GgufHeader, scan_header
from power_core.artifacts.identity import ArtifactIdentity, identify
from power_core.artifacts.roles import FileRole, check_target, describe_role
from power_core.artifacts.validation import ArtifactValidator, Check, ValidationReport
from power_core.artifacts.values import Scalar, StringArray
from power_core.artifacts.wording import shorten
from power_core.cli.console import EXIT_OK, EXIT_USAGE, fold_line, write_out
from power_core.cli.progress import ProgressView
from power_core.cli.table import format_table
from power_core.errors import ArtifactError
from power_core.json_text import json_text
from power_core.plugins.manager import load_plugins

CHECKED_ROLES = ("target", "target-with-nextn", "split shard")
FACT_KEYS = ("general.name", "general.license")
ARCHITECTURE_FACTS = ("block_count", "nextn_predict_layers", "embedding_length", "context_length", "vocab_size")


@attrs.frozen(kw_only=True)
class Inspection:
    """Everything that is known about one file.

    Attributes:
        header: What it says.
        role: What it is for.
        identity: None when the file does not say what it is.
        admission: What the manifest beside it says, None without a manifest that can be read.
        reports: Every check that was made.
    """

    header: GgufHeader
    role: FileRole
    identity: ArtifactIdentity | None
    admission: Admission | None
    reports: tuple[ValidationReport, ...]

    @property
    def valid(self) -> bool:
        """True when no check failed."""
        return not any(report.failures for report in self.reports)


def run_inspect(file: Path, *, as_json: bool) -> int:
    """Print the inspection; 2 when a check failed.

    Raises:
        ArtifactError: the file cannot be read as a GGUF.
        ConfigError: ``POWER_PLUGINS`` names something that is not installed.
    """
    header = scan_header(file)
    role = describe_role(header)
    reports = [*_core_reports(header, role), *_plugin_reports(header)]
    identity: ArtifactIdentity | None = None
    admission: Admission | None = None
    try:
        with ProgressView() as progress:
            identity = identify(header, lambda done, total: progress.update("hash", done, total))
    except ArtifactError as error:
        reports.insert(0, _failed_report(header, "identity", error.check_id, str(error)))
    else:
        admission, report = check_manifest(header.path, identity)
        reports += [] if report is None else [report]
    inspection = Inspection(header=header, role=role, identity=identity, admission=admission, reports=tuple(reports))
    write_out(_to_json(inspection) if as_json else _to_text(inspection))
    return EXIT_OK if inspection.valid else EXIT_USAGE


def key_facts(header: GgufHeader) -> dict[str, Any]:
    """Return what a reader wants to know first; keys that the file lacks are left out."""
    facts = {key: _single(header, key) for key in FACT_KEYS}
    architecture = header.get("general.architecture")
    facts |= {name: _single(header, f"{architecture}.{name}") for name in ARCHITECTURE_FACTS}
    tokens = header.get("tokenizer.ggml.tokens")
    facts["tokenizer"] = _single(header, "tokenizer.ggml.model")
    facts["tokens"] = len(tokens) if isinstance(tokens, StringArray) else None
    facts["chat_template"] = "yes" if header.get("tokenizer.chat_template") else "no"
    counts = Counter(tensor.type_name for tensor in header.tensors.values())
    facts["tensors"] = len(header.tensors)
    facts["tensor_types"] = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    return {name: value for name, value in facts.items() if value not in (None, "")}


def _single(header: GgufHeader, key: str) -> Scalar | None:
    """Return a single value, a long text cut, a number that is not finite as text; None for arrays."""
    value = header.get(key)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str):
        return shorten(value)
    return None if isinstance(value, tuple | StringArray) else value


def _core_reports(header: GgufHeader, role: FileRole) -> list[ValidationReport]:
    if role.role not in CHECKED_ROLES:
        return []
    try:
        return [check_target(header)]
    except ArtifactError as error:
        return [_failed_report(header, "target", error.check_id, str(error))]


def _plugin_reports(header: GgufHeader) -> list[ValidationReport]:
    reports = (_ask_validator(validator, header) for validator in load_plugins().validators())
    return [report for report in reports if report is not None]


def _ask_validator(validator: ArtifactValidator, header: GgufHeader) -> ValidationReport | None:
    try:
        return validator.validate(header) if validator.matches(header) else None
    except Exception as error:  # noqa: BLE001 - a stranger's code: what it raises is a failed check, not a crash
        message = f"the validator raised {type(error).__name__}: {error}"
        return _failed_report(header, validator.kind, f"{validator.kind}.validator", message)


def _failed_report(header: GgufHeader, kind: str, check_id: str, message: str) -> ValidationReport:
    return ValidationReport(kind=kind, path=header.path, checks=(Check(id=check_id, passed=False, message=message),))


def _to_json(inspection: Inspection) -> str:
    values = {
        "path": str(inspection.header.path),
        "valid": inspection.valid,
        "role": inspection.role.role,
        "sentence": inspection.role.sentence,
        "next_step": inspection.role.next_step,
        "identity": attrs.asdict(inspection.identity) if inspection.identity else None,
        "facts": key_facts(inspection.header),
        "admission": inspection.admission.manifest.to_dict() if inspection.admission else None,
        "reports": [
            {"kind": report.kind, "ok": report.ok, "checks": [_describe_check(check) for check in report.checks]}
            for report in inspection.reports
        ],
    }
    return json_text(values, indent=2)


def _describe_check(check: Check) -> dict[str, Any]:
    return {
        "id": check.id,
        "passed": check.passed,
        "message": check.message,
        "expected": None if check.expected is None else shorten(check.expected),
        "actual": None if check.actual is None else shorten(check.actual),
    }


def _to_text(inspection: Inspection) -> str:
    role = inspection.role
    identity = attrs.asdict(inspection.identity) if inspection.identity else {}
    facts = {**identity, **key_facts(inspection.header), **_admission_facts(inspection.admission)}
    lines = [fold_line(role.sentence), f"Next: {fold_line(role.next_step)}", ""]
    lines.append(format_table([(name, str(value)) for name, value in facts.items() if value is not None]))
    lines += [_report_text(report) for report in inspection.reports]
    if not inspection.reports:
        lines.append("No installed package checks this kind of file.\n")
    return "\n".join(lines)


def _admission_facts(admission: Admission | None) -> dict[str, str]:
    if admission is None:
        return {}
    manifest = admission.manifest
    return {
        "admitted for": f"a target of {manifest.target.size_bytes} bytes, SHA-256 {manifest.target.sha256}",
        "admitted at": manifest.admitted_at,
        "provenance": f"{manifest.source}, revision {manifest.revision}, license {manifest.license}",
    }


def _report_text(report: ValidationReport) -> str:
    passed = sum(check.passed for check in report.checks)
    head = f"{report.kind}: {'valid' if report.ok else 'INVALID'}, {passed} of {len(report.checks)} checks passed\n"
    rows = [("failed", check.id, _failure_text(check)) for check in report.failures]
    return head + format_table(rows)


def _failure_text(check: Check) -> str:
    facts = [
        f"{name} {shorten(value)}"
        for name, value in (("expected", check.expected), ("found", check.actual))
        if value is not None
    ]
    return f"{check.message} ({', '.join(facts)})" if facts else check.message
