"""How many examples a run draws, and whether it draws the same ones each time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias, get_args
from unittest.mock import patch

import attrs
from hypothesis import HealthCheck, Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.internal.conjecture import engine

from power_core.errors import ConfigError

ProfileName: TypeAlias = Literal["ci", "contract", "explore"]
PROFILE_NAMES: tuple[ProfileName, ...] = get_args(ProfileName)


@attrs.frozen(kw_only=True)
class Profile:
    """Sizes of a run.

    Attributes:
        name: ``ci`` within 60 seconds and ``contract`` within 3 minutes a plugin on two cores, the same examples every
            time; ``explore`` draws others on every run and keeps what failed in ``.hypothesis``.
        examples: Examples per property.
        histories: Runs of a state machine.
        history_steps: Most steps of one such run.
        every_kind: Each test runs on every target kind; else on one, dealt in turn.
        shrinking_seconds: How long a failing example is made smaller.
    """

    name: ProfileName
    examples: int
    histories: int
    history_steps: int
    every_kind: bool = True
    shrinking_seconds: int = 20

    @property
    def derandomized(self) -> bool:
        """True when every run draws the same examples."""
        return self.name != "explore"

    def as_settings(self) -> settings:
        """Return the settings that Hypothesis gets."""
        return settings(
            max_examples=self.examples,
            stateful_step_count=self.history_steps,
            derandomize=self.derandomized,
            database=None if self.derandomized else DirectoryBasedExampleDatabase(".hypothesis/power-contract"),
            deadline=None,
            report_multiple_bugs=False,
            phases=[phase for phase in Phase if phase is not Phase.explain],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )


PROFILES: dict[ProfileName, Profile] = {
    "ci": Profile(name="ci", examples=8, histories=5, history_steps=12, every_kind=False),
    "contract": Profile(name="contract", examples=25, histories=20, history_steps=20),
    "explore": Profile(name="explore", examples=200, histories=150, history_steps=40, shrinking_seconds=300),
}


def find_profile(name: str) -> Profile:
    """Return a profile by name.

    Raises:
        ConfigError: there is none of that name.
    """
    for profile in PROFILES.values():
        if profile.name == name:
            return profile
    allowed = ", ".join(PROFILE_NAMES)
    raise ConfigError(
        f"there is no profile {name!r}, expected one of: {allowed}", field="profile", value=name, allowed=allowed
    )


@contextmanager
def profile_in_force(profile: Profile) -> Iterator[None]:
    """Make Hypothesis obey the profile; its former settings come back afterwards.

    Hypothesis has no setting for the time that it shrinks a failure, which is five minutes; the kit pins its version.
    """
    former = settings.get_current_profile_name()
    name = f"power-contract-{profile.name}"
    settings.register_profile(name, profile.as_settings())
    settings.load_profile(name)
    try:
        with patch.object(engine, "MAX_SHRINKING_SECONDS", profile.shrinking_seconds):
            yield
    finally:
        settings.load_profile(former)
