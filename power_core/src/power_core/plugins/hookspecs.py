"""The five hooks of entry-point group ``power``. They register data once, at start-up; decoding calls none of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from power_core.artifacts.validation import ArtifactValidator
    from power_core.plugins.types import BackendSpec, HealthCheck, PluginInfo, StrategySpec

_hookspec = pluggy.HookspecMarker("power")


class PowerSpecs:
    """What a plugin may implement. Only ``power_plugin_info`` is required.

    A whole plugin, module ``power_repeat/plugin.py``::

        from power_core.plugins import PluginInfo, StrategySpec, TargetNeeds, hookimpl

        class RepeatDrafter:
            def begin(self, prompt, *, seq_id=0): ...
            def process(self, rows): ...
            def accept(self, accepted_tokens, *, seq_id=0): ...
            def checkpoint(self, *, seq_id=0): ...
            def restore(self, checkpoint, *, seq_id=0): ...
            def close(self): ...
            def propose(self, request):
                from power_core.drafter import Proposal
                return Proposal(seq_id=request.seq_id, tokens=[request.anchor] * request.limit_tokens)

        @hookimpl
        def power_plugin_info():
            return PluginInfo(name="repeat", api=(1, 0), summary="Guesses that the last token repeats.")

        @hookimpl
        def power_strategies():
            return [StrategySpec(
                name="repeat",
                refuse=lambda target_header, draft_header: None,
                needs=lambda target_header, draft_header: TargetNeeds(),
                create_drafter=lambda context: RepeatDrafter(),
            )]

    Its ``pyproject.toml`` makes it known with ``repeat = "power_repeat.plugin"`` in ``[project.entry-points.power]``.

    Hooks may return any iterable, a generator too. An item of another type, or a name that is taken, is an error that
    names the distribution; a hook that raises takes its own plugin out and no other.
    """

    @_hookspec
    def power_plugin_info(self) -> PluginInfo:  # type: ignore[empty-body]
        """Say who you are and which API you were written for. Called first, before any other hook is looked at.

        ``api`` is the version the code was written for, as a literal; copying ``API_VERSION`` would defeat the check::

            from power_core.plugins import PluginInfo, hookimpl

            @hookimpl
            def power_plugin_info():
                return PluginInfo(name="repeat", api=(1, 0), summary="Guesses that the last token repeats.")
        """

    @_hookspec
    def power_strategies(self) -> Iterable[StrategySpec]:  # type: ignore[empty-body]
        """Register strategies.

        Names are kebab-case. A name or alias may repeat no built-in word and no other strategy's word::

            from power_core.plugins import StrategySpec, TargetNeeds, hookimpl

            def refuse(target_header, draft_header):
                return None if draft_header else "it needs a draft"

            def create_drafter(context):
                from power_repeat.drafter import RepeatDrafter
                return RepeatDrafter(context)

            @hookimpl
            def power_strategies():
                yield StrategySpec(
                    name="repeat",
                    aliases=("again",),
                    uses_draft_file=True,
                    refuse=refuse,
                    needs=lambda target_header, draft_header: TargetNeeds(),
                    create_drafter=create_drafter,
                )
        """

    @_hookspec
    def power_artifact_validators(self) -> Iterable[ArtifactValidator]:  # type: ignore[empty-body]
        """Register validators, one per kind of file.

        Each is an ``ArtifactValidator``: two texts and two methods that read a header and load nothing::

            from power_core.plugins import hookimpl

            class RepeatTable:
                kind = "repeat-table"
                describe = "A table of tokens that tend to repeat."

                def matches(self, header):
                    return header.architecture == "repeat"

                def validate(self, header):
                    from power_core.artifacts.validation import CheckList
                    checks = CheckList(self.kind)
                    checks.add("tensor", "repeat.weight" in header.tensors, "looked for tensor `repeat.weight`")
                    return checks.report(self.kind, header.path)

            @hookimpl
            def power_artifact_validators():
                return [RepeatTable()]
        """

    @_hookspec
    def power_backends(self) -> Iterable[BackendSpec]:  # type: ignore[empty-body]
        """Register ways to run target models.

        Import the library when the model is opened, not before::

            from power_core.plugins import BackendSpec, hookimpl

            def open_model(settings, progress):
                from power_repeat.target import RepeatModel
                return RepeatModel(settings.path)

            @hookimpl
            def power_backends():
                return [BackendSpec(name="repeat", summary="Repeats its input.", open_model=open_model)]
        """

    @_hookspec
    def power_health_checks(self) -> Iterable[HealthCheck]:  # type: ignore[empty-body]
        """Register checks for ``power doctor``.

        A check reports what it finds and does not raise::

            from power_core.plugins import HealthCheck, HealthResult, hookimpl

            def check_table():
                return [HealthResult(name="repeat table", status="ok", detail="built in")]

            @hookimpl
            def power_health_checks():
                return [HealthCheck(name="repeat", run=check_table)]
        """
