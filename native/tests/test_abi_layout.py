"""The compiled library and the generated module agree on every structure and every function."""

import ctypes

import pytest

from power_native import _loader, _raw, load_library

pytestmark = pytest.mark.native


@pytest.mark.parametrize("struct", _raw.STRUCTS, ids=lambda struct: struct.__name__)
def test_layout_is_that_of_the_compiled_library(struct):
    library = load_library()
    assert _loader.layout_differences(library.functions, struct, library.path) == []


def test_unknown_structure_is_an_error_of_the_library():
    library = load_library()
    unknown = type("power_nothing", (ctypes.Structure,), {"_fields_": [("size", ctypes.c_uint32)]})
    (difference,) = _loader.layout_differences(library.functions, unknown, library.path)
    assert difference.startswith("power_nothing: `power_struct_layout` failed")


def test_every_declared_function_is_exported():
    library = load_library()
    for name in _raw.FUNCTIONS:
        assert getattr(library.functions, name).argtypes is not None


def test_wrong_structure_size_is_refused_by_the_library():
    library = load_library()
    info, error = _raw.power_build_info(size=4), _raw.power_error(size=ctypes.sizeof(_raw.power_error))
    status = library.functions.power_build_info_get(ctypes.byref(info), ctypes.byref(error))
    assert status == _raw.POWER_ABI_MISMATCH
    assert b"power_build_info" in error.text
