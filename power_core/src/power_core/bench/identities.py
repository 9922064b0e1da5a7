"""On which files, software and machine a benchmark was made. No path stands in it."""

from __future__ import annotations

import hashlib
import math
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import attrs

from power_core.artifacts.model_files import ModelFiles
from power_core.bench.records import Environment, TargetRecord
from power_core.errors import PowerError
from power_core.grammar import read_grammar
from power_core.opening import Progress
from power_core.planning import threads_in_force
from power_core.plugins.loading import LoadedPlugin
from power_core.plugins.manager import PowerPluginManager
from power_core.sampler import SamplingSettings
from power_core.settings import SessionSettings

CPUINFO = Path("/proc/cpuinfo")


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text as UTF-8."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def describe_sampling(sampling: SamplingSettings) -> dict[str, Any]:
    """Return the sampling settings as plain values: a grammar by its digest, infinite biases in words."""
    values = attrs.asdict(sampling)
    del values["grammar"], values["grammar_file"]
    values["dry_sequence_breakers"] = list(sampling.dry_sequence_breakers)
    grammar = read_grammar(sampling)
    values["grammar_sha256"] = text_digest(grammar) if grammar else None
    values["logit_bias"] = [[token, bias if math.isfinite(bias) else str(bias)] for token, bias in sampling.logit_bias]
    return values


def identify_target(files: ModelFiles, progress: Progress | None) -> TargetRecord:
    """Hash the target; ``progress`` gets the phase ``hash target``."""
    identity = files.measure(None if progress is None else lambda done, total: progress("hash target", done, total))
    return TargetRecord(
        file=files.path.name,
        architecture=identity.architecture,
        size_bytes=identity.size_bytes,
        sha256=identity.sha256,
    )


def load_averages() -> tuple[float, ...]:
    """Return the load averages over 1, 5 and 15 minutes; nothing where the system has none."""
    return os.getloadavg() if hasattr(os, "getloadavg") else ()


def describe_environment(plugins: PowerPluginManager, load_before: tuple[float, ...]) -> Environment:
    """Return the environment after the last run."""
    return Environment(
        platform=platform.platform(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        cpu=_cpu_name(),
        cores=threads_in_force(SessionSettings()),
        memory_bytes=_memory_bytes(),
        load_before=load_before,
        load_after=load_averages(),
        packages={
            "power-core": _core_version(),
            **{record.distribution: record.version for record in plugins.plugins if record.status == "loaded"},
        },
        backend=backend_facts(plugins),
    )


def backend_facts(plugins: PowerPluginManager) -> dict[str, str]:
    """Return the build of the backend and what its plugin says in ``power doctor``, paths and free memory left out."""
    facts: dict[str, str] = {}
    for record in plugins.plugins:
        if record.backend_specs:
            facts |= _health(record)
    return facts


def _health(record: LoadedPlugin) -> dict[str, str]:
    try:
        results = [result for check in record.health_checks for result in check.run()]
        build = ", ".join(spec.build_key() for spec in record.backend_specs)
    except PowerError as error:
        return {"error": str(error)}
    lasting = [result for result in results if not Path(result.detail).is_absolute() and " free" not in result.detail]
    return {"build": build, **{result.name: result.detail for result in lasting}}


def _core_version() -> str:
    try:
        return metadata.version("power-core")
    except metadata.PackageNotFoundError:
        return "not installed"


def _cpu_name() -> str:
    try:
        lines = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
