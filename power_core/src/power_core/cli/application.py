"""The commands of ``power`` and their options. What they do stands in one module per command, imported when it runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer

from power_core.cli.console import EXIT_OK, EXIT_USAGE, print_error, run_guarded, write_out
from power_core.cli.options import Config, Debug, Json, with_settings
from power_core.cli.versions import package_version

USAGE_ERROR: Any = typer.BadParameter.__mro__[1]
"""The class of every mistake in a command line that Typer itself finds."""


def _examples(*lines: str) -> str:
    return "\n\n".join(("Examples:", *lines))


app = typer.Typer(
    name="power",
    help="Speculative decoding for local GGUF models.\n\nThe target decides every token; a drafter only proposes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
plugins_app = typer.Typer(help="Look at the installed plugins.", no_args_is_help=True)
app.add_typer(plugins_app, name="plugins")


def run_application(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status; see ``power_core.cli.main``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    return run_guarded(lambda: _run(arguments), debug=False)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        status = app(args=arguments, prog_name="power", standalone_mode=False)
    except USAGE_ERROR as error:
        message = error.format_message()
        if message:  # a group without a command has printed its help and has nothing to add
            command = error.ctx.command_path if error.ctx else "power"
            print_error("config.usage", message, f"see `{command} --help`")
        return EXIT_USAGE
    return status if isinstance(status, int) else EXIT_OK


def _print_version(wanted: bool) -> None:
    if wanted:
        write_out(f"power {package_version('power-core')}\n")
        raise typer.Exit


@app.callback()
def power(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Options of the program itself; the help text is the application's."""


@app.command(
    epilog=_examples(
        'power generate --spec mtp --prompt "def fibonacci(n):" --max-tokens 64',
        "power generate --model m.gguf --spec prompt-lookup --prompt-file notes.txt",
        "cat notes.txt | power generate --model m.gguf --chat --json -",
    )
)
@with_settings
def generate(
    flags: Mapping[str, Any],
    source: Annotated[str | None, typer.Argument(metavar="[-]", help="Read the prompt from standard input.")] = None,
    *,
    prompt: Annotated[str | None, typer.Option("--prompt", metavar="TEXT", help="The prompt.")] = None,
    prompt_file: Annotated[
        Path | None, typer.Option("--prompt-file", metavar="FILE", help="UTF-8 file that holds the prompt.")
    ] = None,
    chat: Annotated[bool, typer.Option("--chat", help="Wrap the prompt in the model's chat template.")] = False,
    config: Config = None,
    stream: Annotated[
        bool | None,
        typer.Option(
            "--stream/--no-stream",
            help="Show text while it is generated; default: when standard output is a terminal.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Generate text: the text goes to standard output, progress and report to standard error.

    Exactly one of --prompt, --prompt-file and - gives the prompt.
    """
    from power_core.cli.generate import GenerateOrder, run_generate

    order = GenerateOrder(
        flags=flags,
        config=config,
        prompt=prompt,
        prompt_file=prompt_file,
        source=source,
        chat=chat,
        stream=stream,
        json=json,
    )
    return run_guarded(lambda: run_generate(order), debug=debug)


@plugins_app.command(
    "list", epilog=_examples("power plugins list", "POWER_PLUGINS=power-native,power-mtp power plugins list --verbose")
)
def list_plugins(
    *,
    json: Json = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the traceback of every failure.")] = False,
    debug: Debug = False,
) -> int:
    """List the installed plugins, the broken ones with the reason."""
    from power_core.cli.plugins import run_plugins_list

    return run_guarded(lambda: run_plugins_list(as_json=json, verbose=verbose or debug), debug=debug)


@app.command(epilog=_examples("power doctor", "power doctor --config power.toml --draft-max 5"))
@with_settings
def doctor(flags: Mapping[str, Any], *, config: Config = None, json: Json = False, debug: Debug = False) -> int:
    """Check the installation; with a file or flags also show every setting in force and where it comes from."""
    from power_core.cli.doctor import run_doctor

    return run_guarded(lambda: run_doctor(flags, config, as_json=json), debug=debug)


@app.command(
    epilog=_examples(
        "power admit --target model.gguf --draft draft.gguf --source https://example.org/draft --revision 4f2a1c "
        "--license Apache-2.0",
    )
)
def admit(
    *,
    target: Annotated[Path, typer.Option("--target", metavar="FILE", help="Target model, a GGUF file.")],
    draft: Annotated[Path, typer.Option("--draft", metavar="FILE", help="Draft model, a GGUF file.")],
    source: Annotated[str, typer.Option("--source", metavar="URL", help="Where the draft was taken from.")],
    revision: Annotated[str, typer.Option("--revision", metavar="TEXT", help="Its revision there: a commit, a tag.")],
    license: Annotated[str, typer.Option("--license", metavar="SPDX", help="Its license, an SPDX identifier.")],
    force: Annotated[bool, typer.Option("--force", help="Replace a manifest that says something else.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Check a draft with its target, measure both, and write a manifest beside the draft.

    Sessions on that target then use the draft by themselves, and refuse it when a byte of either file changed.
    """
    from power_core.cli.admit import AdmitOrder, run_admit

    order = AdmitOrder(
        target=target, draft=draft, source=source, revision=revision, license=license, force=force, json=json
    )
    return run_guarded(lambda: run_admit(order), debug=debug)


@app.command(epilog=_examples("power inspect model.gguf", "power inspect model.gguf --json"))
def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A GGUF file.", show_default=False)],
    *,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Say what a GGUF file is for, whether it is valid, and whether it is admitted; no model is loaded."""
    from power_core.cli.inspect import run_inspect

    return run_guarded(lambda: run_inspect(file, as_json=json), debug=debug)


@app.command(
    epilog=_examples(
        "power bench --model m.gguf --spec mtp --draft-max 1,3,7 --prompt-file notes.txt --json a.json",
        "power bench --model m.gguf --spec prompt-lookup,mtp --prompts prompts.json --repeats 5 --gate-ratio 1.0",
        'power bench --spec mtp --draft-max 3 --prompt "def f(n):" --synthetic-acceptance 0.9,0.8,0.7',
    )
)
@with_settings
def bench(
    flags: Mapping[str, Any],
    *,
    spec: Annotated[
        str | None, typer.Option("--spec", metavar="LIST", help="Strategies between commas; `off` always runs too.")
    ] = None,
    draft: Annotated[
        str | None,
        typer.Option("--draft", metavar="LIST", help="The draft's FILE, or STRATEGY=FILE between commas."),
    ] = None,
    draft_max: Annotated[
        str | None, typer.Option("--draft-max", metavar="LIST", help="Values of K between commas.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option("--scheduler", metavar="LIST", help="Schedulers between commas.")
    ] = None,
    prompt: Annotated[str | None, typer.Option("--prompt", metavar="TEXT", help="The prompt.")] = None,
    prompt_file: Annotated[
        Path | None, typer.Option("--prompt-file", metavar="FILE", help="UTF-8 file that holds the prompt.")
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option("--prompts", metavar="FILE", help="JSON array of texts, or of objects with `name` and `text`."),
    ] = None,
    chat: Annotated[bool, typer.Option("--chat", help="Wrap every prompt in the model's chat template.")] = False,
    repeats: Annotated[int, typer.Option("--repeats", metavar="N", help="Measured runs per prompt.")] = 5,
    warmups: Annotated[int, typer.Option("--warmups", metavar="N", help="Runs before them that are not kept.")] = 1,
    sessions: Annotated[
        str | None,
        typer.Option(
            "--sessions",
            metavar="WORD",
            help="`together` keeps all sessions open, `in-turn` opens one per run; default: in turn on a device.",
            show_default=False,
        ),
    ] = None,
    gate_rate: Annotated[
        float | None, typer.Option("--gate-rate", metavar="X", help="Least median decode rate, in tokens per second.")
    ] = None,
    gate_each_rate: Annotated[
        float | None, typer.Option("--gate-each-rate", metavar="X", help="Least decode rate of every single run.")
    ] = None,
    gate_ratio: Annotated[
        float | None,
        typer.Option("--gate-ratio", metavar="X", help="What the interval of the ratio to `off` has to reach."),
    ] = None,
    gate_each_ratio: Annotated[
        float | None, typer.Option("--gate-each-ratio", metavar="X", help="Least ratio to `off` of every single pair.")
    ] = None,
    synthetic_acceptance: Annotated[
        str | None,
        typer.Option(
            "--synthetic-acceptance",
            metavar="PROFILE",
            help="Replay this acceptance instead of the drafters' own: a probability per position, or a file of them.",
        ),
    ] = None,
    synthetic_seed: Annotated[
        int, typer.Option("--synthetic-seed", metavar="N", help="Seed of the right and wrong drafts.")
    ] = 0,
    row_costs: Annotated[
        bool, typer.Option("--row-costs", help="Measure one evaluation of the target by its rows, too.")
    ] = False,
    json: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write the report there; `-` prints it instead of the table."),
    ] = None,
    config: Config = None,
    debug: Debug = False,
) -> int:
    """Measure strategies against plain decoding: paired runs in one process, outputs compared, raw samples kept.

    Exactly one of --prompt, --prompt-file and --prompts gives the prompts. Exit status 1 when a gate failed; that every
    output equals that of `off` is always one.
    """
    from power_core.cli.bench import BenchOrder, run_bench_order

    order = BenchOrder(
        flags=flags,
        config=config,
        spec=spec,
        draft=draft,
        draft_max=draft_max,
        scheduler=scheduler,
        prompt=prompt,
        prompt_file=prompt_file,
        prompts=prompts,
        chat=chat,
        repeats=repeats,
        warmups=warmups,
        sessions=sessions,
        gates={"rate": gate_rate, "each_rate": gate_each_rate, "ratio": gate_ratio, "each_ratio": gate_each_ratio},
        synthetic_acceptance=synthetic_acceptance,
        synthetic_seed=synthetic_seed,
        row_costs=row_costs,
        json=json,
    )
    return run_guarded(lambda: run_bench_order(order), debug=debug)


@app.command(epilog=_examples("power compare before.json after.json"))
def compare(
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="A report of power bench.", show_default=False)],
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="A later report.", show_default=False)],
    *,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Compare two benchmark reports of the same model, prompts and settings: the second over the first."""
    from power_core.cli.compare import run_compare

    return run_guarded(lambda: run_compare(first, second, as_json=json), debug=debug)


@app.command(epilog=_examples("power plot a.json", "power plot before.json after.json --png speed.png"))
def plot(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Reports of power bench.", show_default=False)],
    *,
    png: Annotated[
        Path | None,
        typer.Option("--png", metavar="FILE", help="Draw a PNG file instead of text; needs `power-core[plot]`."),
    ] = None,
    debug: Debug = False,
) -> int:
    """Show acceptance by position, cost curves and throughput of benchmark reports."""
    from power_core.cli.plot import run_plot

    return run_guarded(lambda: run_plot(files, png), debug=debug)


@app.command(epilog=_examples("power schema generate", "power schema bench"))
def schema(
    name: Annotated[str, typer.Argument(metavar="COMMAND", help="generate or bench.", show_default=False)],
    *,
    debug: Debug = False,
) -> int:
    """Print the JSON schema of what `power generate --json` or `power bench --json` writes."""
    from power_core.cli.schema import run_schema

    return run_guarded(lambda: run_schema(name), debug=debug)
