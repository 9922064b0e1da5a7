"""The ctypes module is what the header says, and the generator refuses what it has no rule for."""

import ctypes
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

NATIVE = Path(__file__).resolve().parent.parent
GENERATOR = NATIVE / "tools" / "generate_raw.py"

HEADER = """\
#define POWER_ABI_VERSION 7
#ifdef __cplusplus
extern "C" {
#endif
typedef int32_t power_status;
enum power_kind { POWER_A = 0, POWER_B = 5 };
typedef struct power_model power_model;
typedef int32_t (*power_progress)(float fraction, void *user_data);
// A comment; with a semicolon.
typedef struct power_rows {
    uint32_t size;
    char name[8];
    const float *values;   // many
    power_progress progress;
    power_model *model;
} power_rows;
POWER_API uint32_t power_abi_version(void);
POWER_API power_status power_open(const char *path, const power_rows *rows, power_model **out,
                                  const float **data, char *buffer);
POWER_API void power_close(power_model *model);
#ifdef __cplusplus
}
#endif
"""


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def generated(tmp_path: Path, header: str) -> ModuleType:
    path = tmp_path / "raw.py"
    path.write_text(load(GENERATOR).render(header))
    return load(path)


def test_the_checked_in_module_is_what_the_header_says() -> None:
    result = subprocess.run([sys.executable, GENERATOR, "--check"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_check_finds_a_stale_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = load(GENERATOR)
    module = tmp_path / "_raw.py"
    module.write_text(generator.render(HEADER) + "\n")
    monkeypatch.setattr(generator, "MODULE", module)
    monkeypatch.setattr(sys, "argv", ["generate_raw.py", "--check"])
    assert generator.main() == 1


def test_constants_and_enumerators(tmp_path: Path) -> None:
    raw = generated(tmp_path, HEADER)
    assert (raw.POWER_ABI_VERSION, raw.POWER_A, raw.POWER_B) == (7, 0, 5)


def test_structures_keep_the_order_and_the_layout(tmp_path: Path) -> None:
    raw = generated(tmp_path, HEADER)
    assert [name for name, _ in raw.power_rows._fields_] == ["size", "name", "values", "progress", "model"]
    assert (raw.power_rows.values.offset, ctypes.sizeof(raw.power_rows)) == (16, 40)
    assert (raw.power_rows,) == raw.STRUCTS


def test_signatures(tmp_path: Path) -> None:
    raw = generated(tmp_path, HEADER)
    assert raw.FUNCTIONS["power_abi_version"] == (ctypes.c_uint32, ())
    assert raw.FUNCTIONS["power_close"] == (None, (ctypes.c_void_p,))
    restype, argtypes = raw.FUNCTIONS["power_open"]
    assert restype is ctypes.c_int32
    assert argtypes == (
        ctypes.c_char_p,
        ctypes.POINTER(raw.power_rows),
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.POINTER(ctypes.POINTER(ctypes.c_float)),
        ctypes.POINTER(ctypes.c_char),
    )


def test_bind_sets_the_signature() -> None:
    raw = load(NATIVE / "src" / "power_native" / "_raw.py")
    library = {"power_abi_version": ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 3)}
    function = raw.bind(library, "power_abi_version")
    assert function.restype is ctypes.c_uint32
    assert function.argtypes == ()
    with pytest.raises(KeyError):
        raw.bind(library, "power_unknown")


@pytest.mark.parametrize(
    "declaration",
    [
        "POWER_API long power_long(void);",
        "extern int32_t power_variable;",
        "enum power_open_ended { POWER_FIRST };",
        "POWER_API void power_take(size_t count);",
    ],
)
def test_a_declaration_without_a_rule_is_refused(declaration: str) -> None:
    generator = load(GENERATOR)
    with pytest.raises((generator.HeaderError, generator.c_parser.ParseError)):
        generator.render(HEADER.replace("#ifdef __cplusplus\n}", f"{declaration}\n#ifdef __cplusplus\n}}"))
