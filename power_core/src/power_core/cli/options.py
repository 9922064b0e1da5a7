"""Options made from the table of settings, so that a command takes every setting without naming it again."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from power_core.config import SETTINGS, Setting
from power_core.sampler import SamplingSettings
from power_core.settings import RequestSettings, SessionSettings

PANELS = {
    SessionSettings: "Model and strategy",
    RequestSettings: "Request",
    SamplingSettings: "Sampling",
}
METAVARS = {int: "N", float: "X", str: "WORD", Path: "FILE", list[str]: "TEXT", list[int]: "ID"}

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="TOML file with settings; flags beat it.", show_default=False),
]


def with_settings(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command one option per setting; it receives those that were used as its first argument, by field.

    A setting that the command has a parameter for is left to it.
    """
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    taken = {parameter.name for parameter in own}
    settings = [setting for setting in SETTINGS if setting.field not in taken]

    @functools.wraps(command)
    def wrapper(**arguments: Any) -> int:
        values = {setting.field: arguments.pop(setting.field) for setting in settings}
        return command({field: value for field, value in values.items() if value not in (None, [])}, **arguments)

    options = [_parameter(setting) for setting in settings]
    first = [parameter for parameter in own if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    rest = [parameter for parameter in own if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    signature = inspect.Signature([*first, *rest, *options], return_annotation=int)
    wrapper.__signature__ = signature  # type: ignore[attr-defined]
    wrapper.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    return wrapper


def _parameter(setting: Setting) -> inspect.Parameter:
    option = typer.Option(
        setting.flag,
        metavar=metavar(setting),
        help=help_text(setting),
        show_default=False,
        rich_help_panel=PANELS[setting.owner],
    )
    return inspect.Parameter(
        setting.field,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[setting.kind.flag_type | None, option],
    )


def metavar(setting: Setting) -> str:
    """Return the placeholder of the setting's value."""
    return setting.kind.metavar or METAVARS[setting.kind.flag_type]


def help_text(setting: Setting) -> str:
    """Return the sentence of the setting with what is allowed and the default."""
    facts = [fact for fact in (setting.allowed, f"default: {setting.default_text}") if fact]
    return f"{setting.help} ({'; '.join(facts)})"
