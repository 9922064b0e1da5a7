"""JSON that every reader can read."""

from __future__ import annotations

import json

import pytest

from power_core.errors import PowerError
from power_core.json_text import json_text


def test_values_come_back():
    values = {"text": "a\u00e9", "numbers": [1, 2.5, None]}
    assert json.loads(json_text(values)) == values
    assert json_text([1], indent=1) == "[\n 1\n]\n"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_is_an_error(number: float):
    with pytest.raises(PowerError, match="finite") as caught:
        json_text({"rates": [1.0, number]})
    assert caught.value.code == "json.not_finite"
