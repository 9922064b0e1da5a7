"""A plugin that implements every hook, for the tests of the plugin manager."""

from power_core.plugins import BackendSpec, HealthCheck, HealthResult, PluginInfo, StrategySpec, TargetNeeds, hookimpl


class FakeValidator:
    """Matches nothing."""

    kind = "fake"
    describe = "A file that does not exist."

    def matches(self, header):
        return False

    def validate(self, header):
        raise NotImplementedError


@hookimpl
def power_plugin_info():
    """Answer the handshake."""
    return PluginInfo(name="fake", api=(1, 0), summary="Implements every hook.")


@hookimpl
def power_strategies():
    """Register two strategies, as a generator."""
    for name, aliases in (("fake-a", ("fa", "fake_a")), ("fake-b", ())):
        yield StrategySpec(
            name=name,
            aliases=aliases,
            refuse=lambda target_header, draft_header: None,
            needs=lambda target_header, draft_header: TargetNeeds(),
            create_drafter=lambda context: object(),
        )


@hookimpl
def power_artifact_validators():
    """Register a validator."""
    return [FakeValidator()]


@hookimpl
def power_backends():
    """Register a backend."""
    return (BackendSpec(name="fake-backend", open_model=lambda settings, progress: object()),)


@hookimpl
def power_health_checks():
    """Register a health check."""
    return [HealthCheck(name="fake", run=lambda: [HealthResult(name="fake", status="ok", detail="fine")])]
