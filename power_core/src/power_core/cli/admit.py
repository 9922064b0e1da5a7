"""``power admit``: check a draft with its target and write its manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

from power_core.admission import AdmitResult, Provenance, admit_draft
from power_core.cli.console import EXIT_OK, fold_line, usage_error, write_out
from power_core.cli.progress import ProgressView
from power_core.cli.table import format_table
from power_core.draft_choice import blame_absent_plugin
from power_core.json_text import json_text
from power_core.plugins.manager import load_plugins


@attrs.frozen(kw_only=True)
class AdmitOrder:
    """What the command line asked for."""

    target: Path
    draft: Path
    source: str
    revision: str
    license: str
    force: bool
    json: bool


def run_admit(order: AdmitOrder) -> int:
    """Admit the draft and print what was recorded.

    Raises:
        ArtifactError: a file is absent, broken, or does not go with the other.
        ConfigError: the provenance cannot be written down, another manifest lies there, the folder is read-only.
        PluginError: the plugin that reads the draft failed, or was left out.
    """
    provenance, plugins = _provenance(order), load_plugins()
    with blame_absent_plugin(order.draft, plugins), ProgressView() as progress:
        result = admit_draft(
            order.target,
            order.draft,
            provenance,
            plugins.validators(),
            force=order.force,
            progress=lambda role, done, total: progress.update(f"hash {role}", done, total),
        )
    write_out(_to_json(result) if order.json else _to_text(result, order.target))
    return EXIT_OK


def _provenance(order: AdmitOrder) -> Provenance:
    try:
        return Provenance(source=order.source, revision=order.revision, license=order.license)
    except ValueError as error:
        raise usage_error(f"--{error}", command="admit", field=str(error).partition(" ")[0]) from error


def _to_json(result: AdmitResult) -> str:
    values: dict[str, Any] = {
        "path": str(result.admission.path),
        "written": result.written,
        "manifest": result.admission.manifest.to_dict(),
    }
    return json_text(values, indent=2)


def _to_text(result: AdmitResult, target: Path) -> str:
    manifest = result.admission.manifest
    rows = [
        ("draft", f"{manifest.draft.file}, {manifest.draft.size_bytes} bytes, SHA-256 {manifest.draft.sha256}"),
        ("target", f"{target.name}, {manifest.target.size_bytes} bytes, SHA-256 {manifest.target.sha256}"),
        ("tokenizer", f"{manifest.tokenizer.model}, {manifest.tokenizer.tokens} tokens, the same in both"),
        ("provenance", f"{manifest.source}, revision {manifest.revision}, license {manifest.license}"),
        ("manifest", f"{result.admission.path}{'' if result.written else ', which said so already'}"),
    ]
    return f"{fold_line(f'Admitted {manifest.draft.file} as {manifest.kind}.')}\n{format_table(rows)}"
