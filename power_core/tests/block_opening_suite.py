"""How every block drafter is opened beside its target, and what it refuses then.

Imported by the tests of each block drafter's plugin.
"""

import attrs
import pytest
from drafter_bench import DRAFT_MAX, DrafterBench

from power_core.artifacts import scan_header
from power_core.errors import ArtifactPairingError, ConfigError
from power_core.plugins import API_VERSION, DrafterContext
from power_core.target import ModelSettings
from power_native import NativeModel, open_block_graph, require_block_layout


@pytest.mark.parametrize("arithmetic", ["exact", "fast"])
def test_the_draft_is_loaded_as_the_target_is_with_room_for_one_block_more(files, kind, arithmetic):
    settings = ModelSettings(path=files.target(), arithmetic=arithmetic)
    with NativeModel.open(settings) as model:
        one = DrafterBench(model, kind.spec, files.draft(kind.name), draft_max=5, sequences=2)
        draft = one.draft_context
        assert draft.model.settings == attrs.evolve(settings, path=files.draft(kind.name))
        assert draft.ctx_tokens == one.target.ctx_tokens + (5 if kind.name == "dspark" else 6)
        assert (draft.sequences, draft.threads, draft.flash_attention) == (2, 1, one.target.flash_attention)
        one.close()


# ----------------------------------------------------------------------------------------------------- bounds of a file


def test_more_drafts_than_a_block_has_are_refused(bench, kind):
    with pytest.raises(
        ConfigError, match=f"`draft_max` is {kind.most_drafts + 1}.* at most {kind.most_drafts} drafts"
    ) as caught:
        bench(draft_max=kind.most_drafts + 1)
    assert caught.value.field == "draft_max"


def test_a_longer_context_than_the_draft_was_trained_for_is_refused(bench):
    with pytest.raises(ConfigError, match=r"`ctx` is 8,193 tokens, .* trained for 8,192 positions") as caught:
        bench(ctx_tokens=8193)
    assert caught.value.field == "ctx"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"mask_token": 3}, "mask token"),
        ({"vocabulary_tokens": 511}, "vocabulary"),
        ({"target_layers": (1, 2)}, "width of a fed row"),
        ({"hidden": 128}, "hidden width"),
    ],
)
def test_what_the_library_loaded_must_be_what_the_file_declares(bench, files, kind, change, what):
    draft = files.draft(kind.name)
    one = bench()
    header = scan_header(draft)
    layout = attrs.evolve(require_block_layout(header), **change)
    context = DrafterContext(
        api_version=API_VERSION,
        target_model=one.model,
        target_context=one.target,
        target_header=header,
        draft_path=draft,
        draft_header=header,
        draft_max_tokens=DRAFT_MAX,
    )
    with pytest.raises(ArtifactPairingError, match=f"whose {what} is") as caught:
        open_block_graph(context, layout, strategy="x", distribution="y", confidence="none")
    assert caught.value.check_id == "draft.loaded"
