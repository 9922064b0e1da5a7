"""Settings from flags and files: names, precedence, origins, and every refusal."""

from __future__ import annotations

import math
import os
import re
import tomllib
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_core.config import SETTINGS, SWITCH_KEYS, Setting, is_unicode, read_config_file, resolve
from power_core.errors import ConfigError
from power_core.sampler import SamplingSettings
from power_core.settings import RequestSettings, SessionSettings

BY_FIELD = {setting.field: setting for setting in SETTINGS}


def write(folder: Path, text: str | bytes, name: str = "power.toml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_every_setting_of_the_three_classes_is_in_the_table_once():
    fields = [
        field.name for owner in (SessionSettings, RequestSettings, SamplingSettings) for field in attrs.fields(owner)
    ]
    fields.remove("sampling")
    assert sorted(fields) == sorted(setting.field for setting in SETTINGS)
    assert len({setting.key for setting in SETTINGS} | set(SWITCH_KEYS)) == len(SETTINGS) + len(SWITCH_KEYS)


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("spec_mode", "spec"),
        ("spec_draft_max", "draft_max"),
        ("spec_draft_min", "draft_min"),
        ("spec_draft_p_min", "draft_p_min"),
        ("spec_mtp_recurrent_snapshots", "snapshots"),
        ("spec_mtp_fr_vocab_size", "mtp_fr_vocab_size"),
        ("spec_mtp_fr_map", "mtp_fr_map"),
        ("num_ctx", "ctx"),
        ("num_batch", "batch"),
        ("num_ubatch", "ubatch"),
        ("num_thread", "threads"),
        ("flash_attention", "flash_attention"),
        ("gpu_layers", "gpu_layers"),
        ("main_gpu", "device"),
    ],
)
def test_keys_of_the_seeds_name_our_settings(key: str, field: str):
    assert BY_FIELD[field].key == key


def test_defaults_are_those_of_the_settings_classes():
    configuration = resolve({})
    assert configuration.session == SessionSettings()
    assert configuration.request == RequestSettings()
    assert set(configuration.origins.values()) == {"default"}


def test_every_key_is_read(tmp_path: Path):
    mask = f"{1 << min(os.sched_getaffinity(0)):x}"
    path = write(
        tmp_path,
        """
        model = "models/t.gguf"
        draft = "/d.gguf"
        spec_mode = "mtp"
        spec_draft_max = 5
        spec_draft_min = 2
        spec_draft_p_min = 0.25
        spec_mtp_recurrent_snapshots = 6
        spec_mtp_recurrent_chain = true
        spec_mtp_adaptive = true
        spec_mtp_fr_vocab_size = 8192
        spec_mtp_fr_map = "ranked.gguf"
        verify_rows = "all"
        arithmetic = "fast"
        num_ctx = 1024
        num_batch = 64
        num_ubatch = 32
        num_thread = 3
        num_thread_batch = 2
        cpu_mask = "CPU_MASK"
        gpu_layers = -1
        main_gpu = 1
        override_tensor = ["ffn=CPU"]
        kv_type = "f32"
        device_sampling = true
        verify_shape = "fixed"
        flash_attention = false
        max_tokens = 9
        temperature = 1
        top_k = 40
        top_p = 0.9
        min_p = 0.1
        typical_p = 0.8
        repeat_penalty = 1.1
        frequency_penalty = 0.2
        presence_penalty = 0.3
        repeat_last_n = 32
        dry_multiplier = 0.8
        dry_base = 2
        dry_allowed_length = 3
        dry_penalty_last_n = -1
        dry_sequence_breakers = ["\\n"]
        xtc_probability = 0.5
        xtc_threshold = 0.2
        logit_bias = { 7 = -inf, 3 = 1 }
        grammar_file = "json.gbnf"
        seed = 7
        stop = ["a", "b"]
        stop_tokens = [5, 6]
        logprobs = 3
        """.replace("CPU_MASK", mask),
    )
    configuration = resolve({}, path)
    assert configuration.session == SessionSettings(
        model=tmp_path / "models/t.gguf",
        draft=Path("/d.gguf"),
        spec="mtp",
        draft_max=5,
        draft_min=2,
        draft_p_min=0.25,
        snapshots=6,
        verify_rows="all",
        scheduler="adaptive",
        arithmetic="fast",
        ctx=1024,
        batch=64,
        ubatch=32,
        threads=3,
        threads_batch=2,
        cpu_mask=mask,
        gpu_layers=-1,
        device="1",
        override_tensor=("ffn=CPU",),
        kv_type="f32",
        device_sampling="on",
        verify_shape="fixed",
        flash_attention="off",
        mtp_fr_vocab_size=8192,
        mtp_fr_map=tmp_path / "ranked.gguf",
    )
    assert configuration.request == RequestSettings(
        max_tokens=9,
        stop=("a", "b"),
        stop_tokens=(5, 6),
        logprobs=3,
        sampling=SamplingSettings(
            temperature=1.0,
            top_k=40,
            top_p=0.9,
            min_p=0.1,
            typical_p=0.8,
            repeat_penalty=1.1,
            frequency_penalty=0.2,
            presence_penalty=0.3,
            repeat_last_n=32,
            dry_multiplier=0.8,
            dry_base=2.0,
            dry_allowed_length=3,
            dry_penalty_last_n=-1,
            dry_sequence_breakers=("\n",),
            xtc_probability=0.5,
            xtc_threshold=0.2,
            logit_bias=((3, 1.0), (7, -math.inf)),
            grammar_file=tmp_path / "json.gbnf",
            seed=7,
        ),
    )
    assert {field for field, origin in configuration.origins.items() if origin == "default"} == {"grammar"}


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("dry_sequence_breakers = 'none'", "dry_sequence_breakers", ()),
        ("logit_bias = '5=-1.5'", "logit_bias", ((5, -1.5),)),
        ("logit_bias = ['5=-1', '4=2']", "logit_bias", ((4, 2.0), (5, -1.0))),
        ("[logit_bias]\n9 = 0.5", "logit_bias", ((9, 0.5),)),
    ],
)
def test_sampling_values_may_be_written_in_several_ways(tmp_path: Path, text: str, field: str, value: object):
    assert getattr(resolve({}, write(tmp_path, text)).request.sampling, field) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("logit_bias = '5'", "`logit_bias` is"),
        ("logit_bias = ['5=x']", "`logit_bias` is"),
        ("logit_bias = ['5=1', '5=2']", "each once"),
        ("logit_bias = { a = 1 }", "`logit_bias` is"),
        ("logit_bias = { 1 = true, 2 = 'x' }", "`logit_bias` is"),
        ("logit_bias = [5]", "expected a string"),
        ("stop_tokens = ['5']", "expected an integer"),
        ("stop_tokens = [true]", "expected an integer"),
        ("stop_tokens = -1", "`stop_tokens` is -1"),
        ("grammar = 'root ::= \"a\"'\ngrammar_file = 'x'", "beside the text of a grammar"),
    ],
)
def test_bad_sampling_values_of_a_file_are_refused(tmp_path: Path, text: str, problem: str):
    with pytest.raises(ConfigError, match=re.escape(problem)):
        resolve({}, write(tmp_path, text))


def test_a_flag_beats_the_file_and_the_file_beats_the_default(tmp_path: Path):
    path = write(tmp_path, "num_ctx = 100\nnum_batch = 50\n")
    configuration = resolve({"ctx": 200}, path)
    assert (configuration.session.ctx, configuration.session.batch, configuration.session.snapshots) == (200, 50, 7)
    assert configuration.origins["ctx"] == "flag --ctx"
    assert configuration.origins["batch"] == f"file {path}: num_batch"
    assert configuration.origins["snapshots"] == "default"


def test_the_origin_of_a_switch_is_its_own_key(tmp_path: Path):
    path = write(tmp_path, "spec_mtp_adaptive = false\n")
    configuration = resolve({}, path)
    assert configuration.session.scheduler == "fixed"
    assert configuration.origins["scheduler"] == f"file {path}: spec_mtp_adaptive"


@pytest.mark.parametrize(
    ("text", "value"), [("true", "on"), ("false", "off"), ('"on"', "on"), ('"off"', "off"), ('"auto"', "auto")]
)
def test_flash_attention_is_a_boolean_or_a_word(tmp_path: Path, text: str, value: str):
    path = write(tmp_path, f'flash_attention = {text}\narithmetic = "fast"\n')
    assert resolve({}, path).session.flash_attention == value


@pytest.mark.parametrize(("text", "value"), [("7", 7), ("all", "all")])
def test_verify_rows_is_a_number_or_all(text: str, value: object):
    assert resolve({"verify_rows": text}).session.verify_rows == value


def test_a_single_stop_string_needs_no_array(tmp_path: Path):
    assert resolve({}, write(tmp_path, 'stop = "END"')).request.stop == ("END",)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"draft_max": 0}, "`draft_max` is 0, expected a whole number from 1 to 64 (set by flag --draft-max)"),
        ({"draft_max": -1}, "`draft_max` is -1"),
        (
            {"draft_max": 3, "draft_min": 4},
            "`draft_min` is 4, expected at most draft_max (3) (set by flag --draft-min)",
        ),
        ({"draft_p_min": float("nan")}, "`draft_p_min` is nan, expected a finite number"),
        ({"snapshots": 0}, "`snapshots` is 0"),
        ({"ctx": -5}, "`ctx` is -5"),
        ({"batch": 0}, "`batch` is 0"),
        ({"threads": -1}, "`threads` is -1"),
        ({"gpu_layers": -2}, "`gpu_layers` is -2"),
        ({"verify_rows": "some"}, "`verify_rows` is 'some', expected `all` or a whole number"),
        ({"scheduler": "slow"}, "`scheduler` is 'slow', expected one of fixed, adaptive, goodput"),
        ({"arithmetic": "exactly"}, "`arithmetic` is 'exactly', expected one of exact, fast, guarded"),
        ({"flash_attention": "off"}, "`flash_attention` is off, but exact arithmetic needs it on"),
        ({"mtp_fr_vocab_size": 0}, "`mtp_fr_vocab_size` is 0, expected a whole number from 1 to 1048576"),
        ({"max_tokens": -1}, "`max_tokens` is -1"),
        ({"temperature": float("nan")}, "`temperature` is nan"),
        ({"temperature": -0.1}, "`temperature` is -0.1"),
        ({"top_p": 1.5}, "`top_p` is 1.5"),
        ({"seed": -1}, "`seed` is -1"),
        ({"stop": [""]}, "`stop` is '', expected a non-empty string"),
        ({"spec": "\udcff"}, "`spec` is '\\udcff', expected valid Unicode text (set by flag --spec)"),
        ({"stop": ["a", "\ud800"]}, "`stop` is '\\ud800', expected valid Unicode text"),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_origin(flags: dict[str, object], words: str):
    with pytest.raises(ConfigError) as caught:
        resolve(flags)
    assert words in str(caught.value)
    assert "set by flag --" in str(caught.value)


def test_a_range_is_the_same_in_a_file(tmp_path: Path):
    path = write(tmp_path, "spec_draft_max = 65\n")
    with pytest.raises(ConfigError) as caught:
        resolve({}, path)
    assert str(caught.value).endswith(f"(set by file {path}: spec_draft_max)")
    assert caught.value.hint == "give --draft-max a whole number from 1 to 64"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("spec_draft_mx = 3", "`spec_draft_mx` is not a known key; the nearest is `spec_draft_max`"),
        ("draft_max = 3", "`draft_max` is not a known key; the nearest is `spec_draft_max`"),
        ("ctx = 3", "`ctx` is not a known key; the nearest is `num_ctx`"),
        ("[spec_mode]\nx = 1", "`spec_mode` is of type table, expected a string"),
        ("[q]\nx = 1", "`[q]` is a table; settings stand at the top level"),
        ("spec_draft_max = 3.0", "`spec_draft_max` is of type float (3.0), expected an integer"),
        ("spec_draft_max = true", "`spec_draft_max` is of type boolean (True), expected an integer"),
        ('spec_draft_max = "3"', "`spec_draft_max` is of type string ('3'), expected an integer"),
        ("spec_draft_max = [3]", "`spec_draft_max` is of type array, expected an integer"),
        ("spec_mode = true", "`spec_mode` is of type boolean (True), expected a string"),
        ("model = 1", "`model` is of type integer (1), expected a string"),
        ("temperature = false", "`temperature` is of type boolean (False), expected a number"),
        ("flash_attention = 1", "`flash_attention` is of type integer (1), expected a boolean or a string"),
        ("stop = [1]", "`stop[]` is of type integer (1), expected a string"),
        ("num_ctx = 2020-01-01", "`num_ctx` is of type date"),
        ('spec_mtp_adaptive = "true"', "`spec_mtp_adaptive` is of type string ('true'), expected a boolean"),
        ("spec_mtp_recurrent_chain = false", "`spec_mtp_recurrent_chain` is false, expected true"),
        ('spec_mtp_adaptive = true\nscheduler = "fixed"', "`spec_mtp_adaptive` and `scheduler` set the same thing"),
        ("num_ctx", "is not valid TOML: "),
        ("num_ctx = 1\nnum_ctx = 2", "is not valid TOML: "),
        ("num_ctx = " + "9" * 5000, "is not valid TOML: "),
        ("temperature = 1" + "0" * 400, "`temperature` is inf"),
        ("temperature = nan", "`temperature` is nan"),
        ("spec_draft_min = 9\nspec_draft_max = 2", "`draft_min` is 9, expected at most draft_max (2)"),
    ],
)
def test_a_file_with_a_mistake_is_refused(tmp_path: Path, text: str, words: str):
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        resolve({}, path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert caught.value.hint


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path):
    for path, words in (
        (tmp_path / "absent.toml", "does not exist, expected a TOML file"),
        (tmp_path, "is a directory, expected a TOML file"),
        (Path("/dev/zero"), "is not a file, expected a TOML file"),
        (write(tmp_path, b"stop = '\xff'", "latin.toml"), "is not UTF-8 text (byte 8)"),
        (write(tmp_path, b"#" * 1_048_577, "large.toml"), "has more than 1048576 bytes"),
    ):
        with pytest.raises(ConfigError, match=re.escape(words)) as caught:
            resolve({}, path)
        assert caught.value.code == "config.file"


@pytest.mark.parametrize("setting", [s for s in SETTINGS if s.allowed], ids=lambda setting: setting.field)
def test_a_setting_says_what_it_allows_in_the_words_of_its_error(setting: Setting):
    with pytest.raises(ConfigError) as caught:
        resolve({setting.field: setting.kind.probe})
    assert caught.value.allowed == setting.allowed


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz_-0123456789", max_size=30))
def test_an_unknown_key_always_names_a_known_one(tmp_path_factory: pytest.TempPathFactory, key: str):
    known = {setting.key for setting in SETTINGS} | set(SWITCH_KEYS)
    path = write(tmp_path_factory.getbasetemp(), f'"{key}x" = 1')
    with pytest.raises(ConfigError, match="is not a known key") as caught:
        read_config_file(path)
    assert str(caught.value).rsplit("`", 2)[1] in known


@given(st.text())
def test_text_is_unicode_unless_it_holds_a_surrogate(text: str):
    assert is_unicode(text)
    assert not is_unicode(text + "\ud800")


def test_the_example_of_the_documentation_is_a_valid_file(tmp_path: Path):
    page = Path(__file__).parents[2] / "docs" / "cli.md"
    example = page.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    found = read_config_file(write(tmp_path, example))
    assert {key for key, _ in found.values()} == set(tomllib.loads(example))


@pytest.mark.parametrize("key", ["model", "draft"])
def test_an_empty_path_is_an_error_that_names_the_key(tmp_path: Path, key: str):
    with pytest.raises(ConfigError, match=f"`{key}` is empty") as caught:
        read_config_file(write(tmp_path, f'{key} = ""'))
    assert (caught.value.field, caught.value.value, caught.value.code) == (key, "", "config.file")
