"""The report of one run: what was tested, with what, and the outcome of every clause.

It is checked field by field when it is written and when it is read; ``report.schema.json`` says the same to other
programs.
"""

from __future__ import annotations

import json
import platform
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import attrs
import cattrs

from power_contract.contract_run import ContractRun
from power_contract.loading import installed_version
from power_contract.materials import target_kinds
from power_contract.outcomes import ClauseOutcome
from power_contract.profiles import ProfileName
from power_contract.subject import ContractSubject
from power_core.errors import ConfigError
from power_core.json_text import json_text
from power_core.plugins import API_VERSION
from power_core.plugins.manager import load_plugins

TOOLS = ("power-contract-tests", "power-core", "hypothesis", "pytest", "numpy")


@attrs.frozen(kw_only=True)
class SubjectFacts:
    """The subject, as it declares itself."""

    name: str
    version: str
    strategy: str
    plugin: str
    features: tuple[str, ...]
    target_kinds: tuple[str, ...]
    draft_max: int


@attrs.frozen(kw_only=True)
class ContractReport:
    """One run of the kit on one subject.

    Attributes:
        format: Version of this format.
        subject: What was tested.
        api: API version of the core.
        versions: Python and the distributions that the outcome depends on.
        library: What each installed backend says about itself.
        profile: ``ci``, ``contract`` or ``explore``.
        seed: Seed of Hypothesis, ``derandomized`` when the same examples are drawn every time.
        whole: True when every test that applies has run.
        seconds: Duration.
        clauses: Outcome of every clause.
        histories: By target kind, how often the histories reached each acceptance; no count may be 0 in a whole run.
        problems: What is wrong with the run itself.
    """

    format: Literal[1] = 1
    subject: SubjectFacts
    api: tuple[int, int]
    versions: dict[str, str]
    library: dict[str, str]
    profile: ProfileName
    seed: str
    whole: bool
    seconds: float
    clauses: tuple[ClauseOutcome, ...]
    histories: dict[str, dict[str, int]]
    problems: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """True when nothing failed that is not waived."""
        bad = ("failed", "blocked", "no test")
        return not self.problems and all(each.result not in bad for each in self.clauses)

    @property
    def blocked(self) -> bool:
        """True when nothing could be judged."""
        results = {each.result for each in self.clauses}
        return "blocked" in results and results <= {"blocked", "not declared", "not selected", "no test"}


def make_report(run: ContractRun) -> ContractReport:
    """Return the report of a finished run."""
    subject, profile = run.subject, run.profile
    return ContractReport(
        subject=_facts(subject),
        api=API_VERSION,
        versions={"python": platform.python_version(), **{name: installed_version(name) for name in TOOLS}},
        library=_library(),
        profile=profile.name,
        seed=run.seed,
        whole=run.whole,
        seconds=round(run.seconds, 1),
        clauses=tuple(run.clauses()),
        histories=run.histories.table(target_kinds(subject)),
        problems=tuple(run.problems),
    )


def write_report(report: ContractReport, path: Path) -> None:
    """Write a report as JSON.

    Raises:
        ConfigError: the file cannot be written.
    """
    raw = cattrs.unstructure(report)
    _strict_converter().structure(raw, ContractReport)
    try:
        path.write_text(json_text(raw, indent=2), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write the report to {path}: {error}", field="report", value=str(path)) from error


def read_report(path: Path) -> ContractReport:
    """Read a report and check every field of it; unknown fields are errors.

    Raises:
        ConfigError: it is no JSON, or it is not of this format.
    """
    try:
        return _strict_converter().structure(json.loads(path.read_text(encoding="utf-8")), ContractReport)
    except (OSError, ValueError, cattrs.BaseValidationError) as error:
        detail = "; ".join(cattrs.transform_error(error)) if isinstance(error, cattrs.BaseValidationError) else error
        raise ConfigError(f"{path} is no contract report: {detail}", field="report", value=str(path)) from error


def schema_text() -> str:
    """Return the JSON Schema (draft 2020-12) that every report keeps to."""
    return resources.files("power_contract").joinpath("report.schema.json").read_text(encoding="utf-8")


def _strict_converter() -> cattrs.Converter:
    """Return a converter that neither drops a field nor turns one plain value into another."""
    converter = cattrs.Converter(forbid_extra_keys=True)
    for plain in (str, int, float, bool):
        converter.register_structure_hook(plain, _unchanged)
    return converter


def _unchanged(value: Any, wanted: type) -> Any:
    allowed = (int, float) if wanted is float else (wanted,)
    if type(value) not in allowed:
        raise TypeError(f"expected {wanted.__name__}, found {value!r}")
    return value


def _facts(subject: ContractSubject) -> SubjectFacts:
    return SubjectFacts(
        name=subject.name,
        version=installed_version(subject.name),
        strategy=subject.strategy,
        plugin=subject.plugin,
        features=tuple(sorted(subject.features)),
        target_kinds=subject.target_kinds,
        draft_max=subject.draft_max,
    )


@cache
def _library() -> dict[str, str]:
    """Ask the health checks of every plugin that registers a backend."""
    checks = [check for plugin in load_plugins().plugins if plugin.backends for check in plugin.health_checks]
    return {result.name: result.detail for check in checks for result in check.run()}
