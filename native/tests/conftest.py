"""Fixtures of the native tests: fake libraries compiled on the spot, and tiny models for the real one.

A test marked ``native`` calls the real library. When it is missing, the test fails: it is never skipped.
"""

import ctypes
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from power_core.target import ContextSettings, ModelSettings
from power_core.testing.drafts import build_tiny_draft
from power_core.testing.models import build_tiny_target
from power_core.tokens import TapRequest
from power_native import NativeContext, NativeModel, _raw

FakeBuilder = Callable[..., Path]
ContextOpener = Callable[..., NativeContext]
DraftOpener = Callable[[str], NativeModel]

DRAFT_FORMS: dict[str, dict[str, object]] = {
    "dflash": {"kind": "dflash"},
    "dflash2": {"kind": "dflash2"},
    "dspark": {"kind": "dspark"},
    "dspark-bonus": {"kind": "dspark", "sample_from_anchor": False},
    "own": {"kind": "dflash", "own_embeddings": True, "own_head": True},
    "causal": {"kind": "dflash", "causal": True},
    "small-vocabulary": {"kind": "dspark", "draft_vocabulary_tokens": 96},
    "window": {"kind": "dflash2", "window_tokens": 32},
}
"""Block drafts for the tiny hybrid, as ``build_tiny_draft`` makes them."""

FAKE_HEAD = """
#include <stdint.h>
#include <string.h>
struct layout { const char *name; uint32_t size; uint32_t count; uint32_t offsets[64]; };
static const struct layout layouts[] = {%(layouts)s};
uint32_t power_abi_version(void) { return %(abi)d; }
int32_t power_struct_layout(const char *name, uint32_t *size, uint32_t *offsets, uint32_t capacity, uint32_t *count,
                            void *err) {
    for (unsigned i = 0; i < sizeof layouts / sizeof layouts[0]; ++i) {
        if (strcmp(layouts[i].name, name)) continue;
        *size = layouts[i].size;
        *count = layouts[i].count;
        for (uint32_t m = 0; m < layouts[i].count && m < capacity; ++m) offsets[m] = layouts[i].offsets[m];
        return 0;
    }
    return 1;
}
int32_t power_build_info_get(char *info, void *err) {
    strcpy(info + %(features_offset)d, "%(features)s");
    strcpy(info + %(commit_offset)d, "fakecommit");
    return 0;
}
"""
DEFINED = ("power_abi_version", "power_struct_layout", "power_build_info_get")


def fake_source(
    *,
    abi: int = _raw.POWER_ABI_VERSION,
    offsets: dict[tuple[str, str], int] | None = None,
    sizes: dict[str, int] | None = None,
    without: tuple[str, ...] = (),
    features: str = "OPENMP=1",
    calls: str = "",
) -> str:
    """C source of a library that shakes hands as told and does nothing else.

    ``offsets`` and ``sizes`` replace what is reported for ``(structure, member)`` and structure; ``without`` leaves
    symbols out; ``calls`` names a function that the library needs from elsewhere.
    """
    rows = []
    for struct in _raw.STRUCTS:
        name = struct.__name__
        reported = [
            (offsets or {}).get((name, member), getattr(struct, member).offset) for member, _ in struct._fields_
        ]
        size = (sizes or {}).get(name, ctypes.sizeof(struct))
        rows.append(f'{{"{name}", {size}, {len(reported)}, {{{", ".join(map(str, reported))}}}}}')
    head = FAKE_HEAD % {
        "layouts": ", ".join(rows),
        "abi": abi,
        "features": features,
        "features_offset": _raw.power_build_info.cpu_features.offset,
        "commit_offset": _raw.power_build_info.llama_commit.offset,
    }
    stubs = [f"int32_t {name}(void) {{ return 0; }}" for name in _raw.FUNCTIONS if name not in (*DEFINED, *without)]
    for name in without:
        head = head.replace(f" {name}(", f" renamed_{name}(")
    needed = [f"extern int {calls}(void); int power_uses_it(void) {{ return {calls}(); }}"] if calls else []
    return "\n".join([head, *stubs, *needed])


def compile_library(folder: Path, name: str, source: str, *linked: Path) -> Path:
    """Compile C source into a shared object with the compiler that the project needs anyway."""
    path, text = folder / f"lib{name}.so", folder / f"{name}.c"
    text.write_text(source, encoding="utf-8")
    compiler = shlex.split(os.environ.get("CC", "cc"))
    subprocess.run([*compiler, "-shared", "-fPIC", "-o", str(path), str(text), *map(str, linked)], check=True)
    return path


@pytest.fixture
def build_fake(tmp_path: Path) -> FakeBuilder:
    """Return a function that compiles a fake library; its arguments are those of ``fake_source``."""

    def build(name: str = "fake", **variant: object) -> Path:
        return compile_library(tmp_path, name, fake_source(**variant))

    return build


@pytest.fixture
def library_with_lost_dependency(tmp_path: Path) -> Path:
    """A library that needs another one, which is gone."""
    dependency = compile_library(tmp_path, "lost", "int lost_function(void) { return 1; }")
    library = compile_library(tmp_path, "orphan", fake_source(calls="lost_function"), dependency)
    dependency.unlink()
    return library


@pytest.fixture(scope="session")
def model_paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny target files by kind."""
    folder = tmp_path_factory.mktemp("models")
    return {
        kind: build_tiny_target(folder / f"{kind}.gguf", kind=kind, seed=3)
        for kind in ("hybrid", "attention", "sliding-window")
    }


@pytest.fixture(scope="session")
def models(model_paths: dict[str, Path]) -> Iterator[dict[str, NativeModel]]:
    """The tiny targets, loaded once with exact arithmetic; the hybrid with its prediction block."""
    opened = {
        kind: NativeModel.open(ModelSettings(path=path, load_nextn=kind == "hybrid"))
        for kind, path in model_paths.items()
    }
    yield opened
    for model in opened.values():
        model.close()


@pytest.fixture
def open_context(models: dict[str, NativeModel]) -> Iterator[ContextOpener]:
    """Return a function that opens a context of a kind of model; all are closed after the test."""
    opened: list[NativeContext] = []

    def open_one(kind: str = "attention", *, nextn: bool = False, **settings: object) -> NativeContext:
        settings = {"ctx_tokens": 256, "batch_rows": 64, "threads": 1, **settings}
        context = models[kind].open_context(ContextSettings(taps=TapRequest(nextn=nextn), **settings))
        opened.append(context)
        return context

    yield open_one
    for context in opened:
        context.close()


@pytest.fixture(scope="session")
def draft_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DraftOpener]:
    """Return a function that loads a form of ``DRAFT_FORMS``, each once, with exact arithmetic."""
    folder = tmp_path_factory.mktemp("drafts")
    opened: dict[str, NativeModel] = {}

    def open_one(form: str) -> NativeModel:
        if form not in opened:
            path = build_tiny_draft(folder / f"{form}.gguf", seed=2, **DRAFT_FORMS[form])
            opened[form] = NativeModel.open(ModelSettings(path=path))
        return opened[form]

    yield open_one
    for model in opened.values():
        model.close()
