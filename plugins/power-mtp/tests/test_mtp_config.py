"""Options of the strategy."""

import pytest

from power_core.errors import ConfigError, UnsupportedStrategyError
from power_mtp.config import MtpConfig


@pytest.mark.parametrize("rows", [1_024, 65_536, 1_048_576])
def test_values_in_range_are_taken(rows):
    assert MtpConfig.from_options({"mtp_fr_vocab_size": rows}).fr_vocab_size == rows


@pytest.mark.parametrize("rows", [0, -1, 1_023, 1_048_577, 4096.0, "4096", True])
def test_values_out_of_range_are_refused(rows):
    with pytest.raises(
        ConfigError, match=r"`spec_mtp_fr_vocab_size` is .*, expected a whole number from 1,024 to"
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


@pytest.mark.parametrize(
    ("architecture", "reason"),
    [
        ("glm4moe", "is not implemented for GGUF architecture 'glm4moe', only for qwen35"),
        ("qwen35", "the pinned llama.cpp cannot run yet"),
    ],
)
def test_reduced_vocabulary_is_refused_by_name(architecture, reason):
    with pytest.raises(UnsupportedStrategyError, match=reason) as caught:
        MtpConfig(fr_vocab_size=8_192).require_supported(architecture)
    assert "`spec_mtp_fr_vocab_size`" in str(caught.value)
    assert "leave `spec_mtp_fr_vocab_size` unset" in caught.value.hint
