"""Options of the strategy."""

from pathlib import Path

import pytest

from power_core.errors import ConfigError, UnsupportedStrategyError
from power_mtp.artifact import LAYOUTS
from power_mtp.config import FR_ARCHITECTURES, MtpConfig


@pytest.mark.parametrize("rows", [1, 1_024, 65_536, 1_048_576])
def test_values_in_range_are_taken(rows):
    assert MtpConfig.from_options({"mtp_fr_vocab_size": rows}).fr_vocab_size == rows


@pytest.mark.parametrize("rows", [0, -1, 1_048_577, 4096.0, "4096", True])
def test_values_out_of_range_are_refused(rows):
    with pytest.raises(
        ConfigError, match=r"`spec_mtp_fr_vocab_size` is .*, expected a whole number from 1 to"
    ) as caught:
        MtpConfig.from_options({"mtp_fr_vocab_size": rows})
    assert caught.value.field == "mtp_fr_vocab_size"
    assert "leave it unset" in caught.value.hint


def test_unset_is_the_full_vocabulary():
    for options in ({}, {"mtp_fr_vocab_size": None}):
        config = MtpConfig.from_options(options)
        assert config.fr_vocab_size is None
        config.require_supported("glm4moe")


def test_unknown_option_is_refused():
    with pytest.raises(ConfigError, match="strategy 'mtp' has no option 'block_size'"):
        MtpConfig.from_options({"block_size": 8})


@pytest.mark.parametrize("value", ["map.gguf", 7, b"map.gguf"])
def test_a_map_is_a_path(value):
    with pytest.raises(ConfigError, match=r"`spec_mtp_fr_map` is .*, expected a pathlib\.Path") as caught:
        MtpConfig.from_options({"mtp_fr_map": value})
    assert caught.value.field == "mtp_fr_map"


@pytest.mark.parametrize("architecture", FR_ARCHITECTURES)
def test_architectures_whose_graph_takes_a_part_of_the_head(architecture):
    MtpConfig(fr_vocab_size=8_192, fr_map=Path("map.gguf")).require_supported(architecture)
    assert architecture in LAYOUTS


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ({"fr_vocab_size": 8_192}, "spec_mtp_fr_vocab_size", "8192"),
        ({"fr_map": Path("map.gguf")}, "spec_mtp_fr_map", "map.gguf"),
    ],
)
@pytest.mark.parametrize("architecture", [*sorted(set(LAYOUTS) - set(FR_ARCHITECTURES)), "qwen3", ""])
def test_other_architectures_are_refused_by_name(architecture, options, name, value):
    with pytest.raises(UnsupportedStrategyError, match=f"`{name}` is not implemented for .*'{architecture}'") as caught:
        MtpConfig(**options).require_supported(architecture)
    assert f"the value was {value}" in str(caught.value)
    assert f"leave `{name}` unset" in caught.value.hint
