"""How the library runs what is compared: the settings, and a text's hidden rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal

import attrs

from power_core.target import Arithmetic, ContextSettings, ModelSettings
from power_core.tokens import SequenceRows, TapRequest, Taps
from power_native import NativeContext, NativeModel

BATCH_ROWS = 64


@attrs.frozen(kw_only=True)
class LibrarySettings:
    """Arithmetic, type of the cached keys and values, attention."""

    arithmetic: Arithmetic
    kv_type: str
    flash_attention: Literal["on", "off"]

    def open_model(self, path: Path, *, nextn: bool = False) -> closing[NativeModel]:
        return closing(NativeModel.open(ModelSettings(path=path, arithmetic=self.arithmetic, load_nextn=nextn)))

    def context(self, taps: TapRequest | None = None) -> ContextSettings:
        return ContextSettings(
            ctx_tokens=1024,
            batch_rows=BATCH_ROWS,
            threads=1,
            kv_type=self.kv_type,
            flash_attention=self.flash_attention,
            taps=taps or TapRequest(),
        )


SAME_FUNCTION = LibrarySettings(arithmetic="fast", kv_type="f32", flash_attention="off")
"""On an F32 file the library then computes what PyTorch computes, all in float32; sums differ in their order alone.
Flash attention would round keys and values to float16, whatever the type of the cache."""

DEFAULT = LibrarySettings(arithmetic="exact", kv_type="f16", flash_attention="on")
"""What a session has by default."""


def read_rows(context: NativeContext, tokens: Sequence[int]) -> Iterator[Taps]:
    """Evaluate a text and yield what the context's taps give, batch by batch."""
    for at in range(0, len(tokens), BATCH_ROWS):
        batch = tuple(tokens[at : at + BATCH_ROWS])
        context.evaluate((SequenceRows(start_pos=at, tokens=batch),), kernels="decode")
        yield context.read_taps(0, len(batch))
