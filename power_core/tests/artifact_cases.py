"""One broken file or pair of files, what happens when it is used, and the error that has to say so.

Catalogues of these cases are run by the tests, and docs/artifact-errors.md is generated from them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from power_core.errors import PowerError


@attrs.frozen(kw_only=True)
class ArtifactCase:
    """One fault.

    Attributes:
        name: Unique kebab-case name.
        fault: What is wrong with the file, one phrase.
        attempt: Builds the files in an empty folder and uses them; must raise.
        code: ``PowerError.code`` of the error.
        check_id: ``ArtifactError.check_id`` of the error, empty where the class has none.
    """

    name: str
    fault: str
    attempt: Callable[[Path], object]
    code: str
    check_id: str


def error_of(case: ArtifactCase, folder: Path) -> PowerError:
    """Run a case and return its error after checking code, check id, path and hint."""
    with pytest.raises(PowerError) as caught:
        case.attempt(folder)
    error = caught.value
    assert (error.code, getattr(error, "check_id", "")) == (case.code, case.check_id), str(error)
    assert error.user_mistake
    return error
