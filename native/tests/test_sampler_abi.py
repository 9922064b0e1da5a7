"""The sampler's C interface refuses every value that would end the process or be read as something else."""

import ctypes

import pytest

from power_core.errors import NativeCallError, StateError
from power_core.sampler import SamplingSettings
from power_native import _raw
from power_native._sampler_params import sampler_parameters

pytestmark = pytest.mark.native

NAN, INF = float("nan"), float("inf")
FLOATS = {
    "temperature": (-1.0, 1e-30, 1e7, NAN, INF),
    "top_p": (-0.1, 1.1, NAN),
    "min_p": (-0.1, 1.1, NAN),
    "typical_p": (-0.1, 1.1, NAN),
    "repeat_penalty": (0.0, -1.0, 1e7, NAN, INF),
    "frequency_penalty": (-1e7, 1e7, NAN),
    "presence_penalty": (-1e7, 1e7, NAN),
    "dry_multiplier": (-0.1, NAN, INF),
    "dry_base": (0.5, NAN, INF),
    "xtc_probability": (-0.1, 1.1, NAN),
    "xtc_threshold": (-0.1, 1.1, NAN),
}
COUNTS = dict.fromkeys(("top_k", "repeat_last_n", "dry_allowed_length", "dry_penalty_last_n"), (-1, -(2**31)))
OTHERS = {
    "seed": (2**32 - 1,),
    "n_biases": (513, 2**32 - 1),
    "grammar_bytes": (2**20 + 1, 2**32 - 1),
    "dry_breakers_bytes": (2**32 - 1,),
}


def open_with(model, parameters):
    return model._library.open_handle("power_sampler_open", model._pointer("test"), ctypes.byref(parameters))


def parameters_of(**changes):
    parameters = sampler_parameters(SamplingSettings(temperature=1.0), 256)
    for name, value in changes.items():
        setattr(parameters, name, value)
    return parameters


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for table in (FLOATS, COUNTS, OTHERS) for name in table for value in table[name]]
)
def test_a_value_outside_its_range_is_refused_by_name(models, name, value):
    with pytest.raises(NativeCallError) as caught:
        open_with(models["attention"], parameters_of(**{name: value}))
    assert caught.value.status == _raw.POWER_INVALID_ARGUMENT


def test_every_member_is_refused_somewhere():
    members = {name for name, *_ in _raw.power_sampler_params._fields_}
    assert members - set(FLOATS) - set(COUNTS) - set(OTHERS) == {
        "size",
        "bias_tokens",
        "bias_values",
        "dry_breakers",
        "grammar",
    }


@pytest.mark.parametrize("tokens", [(-1,), (512,), (5, 5)])
def test_biases_name_each_token_once(models, tokens):
    array = (ctypes.c_int32 * len(tokens))(*tokens)
    values = (ctypes.c_float * len(tokens))()
    parameters = parameters_of(
        n_biases=len(tokens),
        bias_tokens=ctypes.cast(array, ctypes.POINTER(ctypes.c_int32)),
        bias_values=ctypes.cast(values, ctypes.POINTER(ctypes.c_float)),
    )
    with pytest.raises(NativeCallError, match="at most once"):
        open_with(models["attention"], parameters)


@pytest.mark.parametrize("value", [NAN, INF, 1e7])
def test_a_bias_is_at_most_a_million(models, value):
    array, values = (ctypes.c_int32 * 1)(5), (ctypes.c_float * 1)(value)
    parameters = parameters_of(
        n_biases=1,
        bias_tokens=ctypes.cast(array, ctypes.POINTER(ctypes.c_int32)),
        bias_values=ctypes.cast(values, ctypes.POINTER(ctypes.c_float)),
    )
    with pytest.raises(NativeCallError, match="at most 1e6"):
        open_with(models["attention"], parameters)


@pytest.mark.parametrize("breakers", [b"abc", b"\0", b"a\0\0", b"x" * 41 + b"\0"])
def test_breakers_are_short_and_terminated(models, breakers):
    parameters = parameters_of(dry_multiplier=1.0, dry_breakers=breakers, dry_breakers_bytes=len(breakers))
    with pytest.raises(NativeCallError, match="sequence breaker"):
        open_with(models["attention"], parameters)


def test_a_character_0_in_a_grammar_is_refused(models):
    text = b'root ::= "a"\0"b"'
    with pytest.raises(NativeCallError, match="line 1, column 13") as caught:
        open_with(models["attention"], parameters_of(grammar=text, grammar_bytes=len(text)))
    assert caught.value.status == _raw.POWER_BAD_GRAMMAR


def test_a_sampler_keeps_its_model_alive_and_needs_its_vocabulary(open_context):
    context = open_context()
    sampler = context.open_sampler(SamplingSettings(temperature=1.0, grammar='root ::= "a"'))
    with pytest.raises(NativeCallError):
        sampler.sample(0)
    sampler._state._call("power_sampler_reset")
    context.close()
    with pytest.raises(StateError):
        sampler.sample(0)
