"""``power plot``: benchmark reports as text bars, or as a PNG file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from power_core.bench.charts import make_charts, to_text
from power_core.bench.drawing import draw_png
from power_core.bench.files import read_report
from power_core.cli.console import EXIT_OK, usage_error, write_out


def run_plot(files: Sequence[Path], png: Path | None) -> int:
    """Print the charts; with ``png`` draw them there instead.

    Raises:
        ConfigError: a file is no report, two files have one name, matplotlib is absent, or the PNG cannot be written.
        BenchError: a report's figures do not follow from its samples.
    """
    names = [file.stem for file in files]
    if len(set(names)) < len(names):
        message = f"two of the files are named alike, expected different names: {', '.join(names)}"
        raise usage_error(message, command="plot", field="files")
    charts = make_charts({file.stem: read_report(file) for file in files})
    if png is None:
        write_out(to_text(charts))
    else:
        draw_png(charts, png)
        write_out(f"{png}\n")
    return EXIT_OK
