import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_core.errors import ConfigError, PluginContractError, PluginLoadError, UnsupportedStrategyError
from power_core.plugins import StrategySpec, TargetNeeds
from power_core.strategies import (
    BUILT_IN_WORDS,
    CANONICAL_STRATEGIES,
    STRATEGY_DISTRIBUTIONS,
    CapabilitySet,
    negotiate,
    parse_strategy,
    strategy_words,
)

WORDS = {
    "auto": "auto",
    "off": "off",
    "none": "off",
    "false": "off",
    "prompt-lookup": "prompt-lookup",
    "prompt_lookup": "prompt-lookup",
    "lookup": "prompt-lookup",
    "true": "prompt-lookup",
    "ngram-context": "ngram-context",
    "ngram_context": "ngram-context",
    "context": "ngram-context",
    "ngram-pool": "ngram-pool",
    "ngram_pool": "ngram-pool",
    "draft-model": "draft-model",
    "draft_model": "draft-model",
    "draft": "draft-model",
    "mtp": "mtp",
    "multi-token-prediction": "mtp",
    "multi_token_prediction": "mtp",
    "dflash": "dflash",
    "dflash2": "dflash2",
    "dflash-2": "dflash2",
    "dflash_2": "dflash2",
    "dspark": "dspark",
}
TARGET = object()
DRAFT = object()
UNSUPPORTED = "speculative strategy '{}' is not supported by this backend/model"


def make_spec(name, *, refusal=None, refuse=None, aliases=(), draft=False, backed=False):
    return StrategySpec(
        name=name,
        aliases=aliases,
        uses_draft_file=draft,
        model_backed=backed,
        refuse=refuse or (lambda target_header, draft_header: refusal),
        needs=lambda target_header, draft_header: TargetNeeds(),
        create_drafter=lambda context: None,
    )


def by_name(*specs):
    return {spec.name: spec for spec in specs}


def raising(target_header, draft_header):
    raise KeyError("block_size")


LOOKUP = make_spec("prompt-lookup")
MTP = make_spec("mtp", backed=True)
MTP_REFUSED = make_spec("mtp", backed=True, refusal="the target has no nextn tensors")
DFLASH = make_spec("dflash", draft=True, backed=True)
DSPARK_REFUSED = make_spec("dspark", draft=True, backed=True, refusal="the draft has no Markov head")


def test_vocabulary_is_complete():
    assert dict(BUILT_IN_WORDS) == WORDS
    assert tuple(dict.fromkeys(WORDS.values())) == CANONICAL_STRATEGIES


@pytest.mark.parametrize(("word", "name"), WORDS.items())
def test_every_word_parses_in_any_case_and_with_space(word, name):
    for text in (word, word.upper(), f" \t{word.title()}\n"):
        assert parse_strategy(text, {}) == name


@given(st.text(max_size=20))
def test_everything_else_is_unknown(text):
    word = "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in text.strip())
    if word in WORDS:
        assert parse_strategy(text, {}) == WORDS[word]
    else:
        with pytest.raises(ConfigError):
            parse_strategy(text, {})


def test_only_ascii_letters_are_lowered():
    kelvin_sign = "\u212a"
    assert f"dspar{kelvin_sign}".lower() == "dspark"
    with pytest.raises(ConfigError):
        parse_strategy(f"dspar{kelvin_sign}", {})


def test_unknown_word_lists_names_and_suggests_the_nearest():
    with pytest.raises(ConfigError) as caught:
        parse_strategy("promt-lookup", {"again": "repeat"})
    error = caught.value
    assert "'promt-lookup'" in str(error)
    for name in (*CANONICAL_STRATEGIES, "repeat"):
        assert name in str(error)
    assert error.hint == "did you mean 'prompt-lookup'?"
    assert (error.field, error.value) == ("spec", "promt-lookup")


def test_a_word_like_no_other_gets_the_list_of_plugins():
    with pytest.raises(ConfigError, match="expected one of") as caught:
        parse_strategy("zzzzzzzz", {})
    assert "power plugins list" in caught.value.hint


def test_a_word_across_lines_stays_on_one_line():
    with pytest.raises(ConfigError) as caught:
        parse_strategy("mt\np", {})
    assert "\n" not in str(caught.value)


def test_plugin_words_parse_and_never_shadow_built_in_ones():
    extra = {"repeat": "repeat", "again": "repeat", "lookup": "repeat"}
    assert parse_strategy("AGAIN", extra) == "repeat"
    assert parse_strategy("lookup", extra) == "prompt-lookup"


def test_strategy_words_cover_names_aliases_and_unavailable_ones():
    specs = by_name(make_spec("repeat", aliases=("again",)))
    assert strategy_words(specs, {"broken": PluginLoadError("x")}) == {
        "repeat": "repeat",
        "again": "repeat",
        "broken": "broken",
    }


def test_none_contains_only_off_and_auto_is_never_a_member():
    empty = CapabilitySet.none()
    assert empty.available == ("off",)
    assert empty.with_("auto") == empty
    assert empty.supports("auto")
    assert not empty.supports("mtp")
    assert empty.with_("mtp").supports("mtp")
    assert not empty.supports("mtp"), "with_ returns another set"


def test_available_is_in_documented_order_then_by_alphabet():
    capabilities = CapabilitySet(names=frozenset({"zebra", "mtp", "ant", "prompt-lookup"}))
    assert capabilities.available == ("off", "prompt-lookup", "mtp", "ant", "zebra")


@given(st.frozensets(st.sampled_from(CANONICAL_STRATEGIES)), st.sampled_from(CANONICAL_STRATEGIES), st.data())
def test_resolve_returns_what_was_asked_or_raises(names, requested, data):
    default = data.draw(st.sampled_from([name for name in CANONICAL_STRATEGIES if name != "auto"]))
    capabilities = CapabilitySet(names=names)
    wanted = default if requested == "auto" else requested
    if wanted == "off" or wanted in names:
        assert capabilities.resolve(requested, default) == wanted
        return
    with pytest.raises(UnsupportedStrategyError) as caught:
        capabilities.resolve(requested, default, hint="do this")
    error = caught.value
    assert str(error) == UNSUPPORTED.format(wanted)
    assert (error.requested, error.resolved, error.available) == (requested, wanted, capabilities.available)
    assert error.hint == f"available here: {', '.join(capabilities.available)}; do this"


def test_auto_cannot_default_to_auto():
    with pytest.raises(ConfigError, match="backend_default"):
        CapabilitySet.none().resolve("auto", "auto")


def test_off_runs_without_any_plugin():
    resolved = negotiate("none", TARGET, None, {})
    assert (resolved.name, resolved.spec, dict(resolved.refusals)) == ("off", None, {})


def test_explicit_strategy_resolves_by_alias_and_reports_other_refusals():
    resolved = negotiate(" TRUE ", TARGET, None, by_name(LOOKUP, MTP_REFUSED, DFLASH))
    assert resolved.name == "prompt-lookup"
    assert resolved.spec is LOOKUP
    assert dict(resolved.refusals) == {
        "mtp": "the target has no nextn tensors",
        "dflash": "strategy 'dflash' needs a draft file and none was given",
    }


def test_refuse_gets_both_headers():
    seen = []
    spec = make_spec("dflash", draft=True, backed=True, refuse=lambda *headers: seen.append(headers))
    assert negotiate("dflash", TARGET, DRAFT, by_name(spec)).spec is spec
    assert seen == [(TARGET, DRAFT)]


def test_explicit_refused_strategy_raises_with_the_sentence():
    with pytest.raises(UnsupportedStrategyError) as caught:
        negotiate("mtp", TARGET, None, by_name(LOOKUP, MTP_REFUSED))
    assert str(caught.value) == UNSUPPORTED.format("mtp") + ": the target has no nextn tensors"
    assert caught.value.available == ("off", "prompt-lookup")
    assert "off, prompt-lookup" in caught.value.hint


@pytest.mark.parametrize(("strategy", "distribution"), STRATEGY_DISTRIBUTIONS.items())
def test_missing_plugin_names_its_package(strategy, distribution):
    with pytest.raises(UnsupportedStrategyError) as caught:
        negotiate(strategy, TARGET, None, {})
    assert str(caught.value) == UNSUPPORTED.format(strategy)
    assert caught.value.hint.endswith(f"pip install {distribution}")


def test_every_strategy_that_can_be_installed_has_a_package():
    assert {*STRATEGY_DISTRIBUTIONS, "auto", "off", "draft-model"} == set(CANONICAL_STRATEGIES)


def test_draft_model_is_reserved():
    with pytest.raises(UnsupportedStrategyError, match="reserved") as caught:
        negotiate("draft", TARGET, DRAFT, by_name(LOOKUP))
    assert str(caught.value).startswith(UNSUPPORTED.format("draft-model"))
    assert "pip install" not in caught.value.hint


def test_draft_strategy_without_a_draft_says_so():
    with pytest.raises(ConfigError, match="'dflash' needs a draft file and none was given") as caught:
        negotiate("dflash", TARGET, None, by_name(DFLASH))
    assert caught.value.field == "draft"
    assert "--draft" in caught.value.hint


@pytest.mark.parametrize("strategy", ["off", "prompt-lookup", "mtp"])
def test_draft_that_would_be_ignored_is_an_error(strategy):
    with pytest.raises(ConfigError, match=f"a draft file was given and strategy '{strategy}' uses none"):
        negotiate(strategy, TARGET, DRAFT, by_name(LOOKUP, MTP, DFLASH))


@pytest.mark.parametrize(
    ("specs", "draft", "expected"),
    [
        ((), None, "off"),
        ((LOOKUP,), None, "off"),
        ((LOOKUP, MTP), None, "mtp"),
        ((LOOKUP, MTP_REFUSED), None, "off"),
        ((LOOKUP, MTP, DFLASH), None, "mtp"),
        ((LOOKUP, MTP, DFLASH), DRAFT, "dflash"),
        ((LOOKUP, MTP, DFLASH, DSPARK_REFUSED), DRAFT, "dflash"),
    ],
)
def test_auto_prefers_external_then_mtp_then_off(specs, draft, expected):
    resolved = negotiate("auto", TARGET, draft, by_name(*specs))
    assert resolved.name == expected
    assert (resolved.spec is None) == (expected == "off")


def test_auto_with_a_draft_that_nothing_reads_fails_closed():
    with pytest.raises(UnsupportedStrategyError, match="dspark: the draft has no Markov head") as caught:
        negotiate("auto", TARGET, DRAFT, by_name(LOOKUP, MTP, DSPARK_REFUSED))
    assert "power-dflash, power-dflash2" in caught.value.hint
    assert "power-dspark" not in caught.value.hint


def test_auto_with_a_draft_and_no_plugin_names_the_packages():
    with pytest.raises(UnsupportedStrategyError, match="no plugin that reads drafts is installed") as caught:
        negotiate("auto", TARGET, DRAFT, {})
    assert "power-dspark" in caught.value.hint


def test_auto_with_a_draft_that_fits_two_strategies_asks_which():
    other = make_spec("dspark", draft=True, backed=True)
    with pytest.raises(ConfigError, match="dflash, dspark"):
        negotiate("auto", TARGET, DRAFT, by_name(DFLASH, other))


def test_auto_never_picks_a_strategy_without_a_draft_graph():
    table = make_spec("table-lookup", draft=True, backed=False)
    with pytest.raises(UnsupportedStrategyError):
        negotiate("auto", TARGET, DRAFT, by_name(table))
    assert negotiate("table-lookup", TARGET, DRAFT, by_name(table)).spec is table


@pytest.mark.parametrize("refuse", [raising, lambda *_: True, lambda *_: "", lambda *_: 7])
def test_broken_refuse_is_the_plugins_fault_and_hurts_no_other(refuse):
    broken = make_spec("mtp", backed=True, refuse=refuse)
    with pytest.raises(PluginContractError, match="`refuse` of strategy 'mtp'"):
        negotiate("mtp", TARGET, None, by_name(broken, LOOKUP))
    resolved = negotiate("lookup", TARGET, None, by_name(broken, LOOKUP))
    assert resolved.spec is LOOKUP
    assert "expected None or a sentence" in resolved.refusals["mtp"]


def test_broken_refuse_keeps_its_cause():
    with pytest.raises(PluginContractError) as caught:
        negotiate("mtp", TARGET, None, by_name(make_spec("mtp", backed=True, refuse=raising)))
    assert isinstance(caught.value.__cause__, KeyError)


def test_unavailable_strategy_raises_its_own_error_and_auto_reports_it():
    error = PluginLoadError("power-mtp 1.0 failed in import")
    with pytest.raises(PluginLoadError) as caught:
        negotiate("multi_token_prediction", TARGET, None, by_name(LOOKUP), {"mtp": error})
    assert caught.value is error
    resolved = negotiate("auto", TARGET, None, by_name(LOOKUP), {"mtp": error})
    assert resolved.name == "off"
    assert resolved.refusals["mtp"] == "power-mtp 1.0 failed in import"


SPECS = st.lists(
    st.builds(
        make_spec,
        st.sampled_from(["prompt-lookup", "mtp", "dflash", "dspark", "repeat"]),
        refusal=st.sampled_from([None, "no"]),
        draft=st.booleans(),
        backed=st.booleans(),
    ),
    unique_by=lambda spec: spec.name,
)


@given(SPECS, st.sampled_from(["auto", "off", "prompt-lookup", "mtp", "dflash", "dspark"]), st.booleans())
def test_negotiation_returns_only_what_can_run(specs, requested, with_draft):
    draft = DRAFT if with_draft else None
    try:
        resolved = negotiate(requested, TARGET, draft, by_name(*specs))
    except (ConfigError, UnsupportedStrategyError):
        return
    assert requested in ("auto", resolved.name)
    if resolved.spec is None:
        assert resolved.name == "off"
        assert not with_draft
        return
    assert resolved.spec.refuse(TARGET, draft) is None
    assert resolved.spec.uses_draft_file == with_draft
    if requested == "auto":
        assert resolved.name == "mtp" or (resolved.spec.uses_draft_file and resolved.spec.model_backed)
