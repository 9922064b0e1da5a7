"""Settings of where and how the target is computed: what is accepted, refused, and passed on."""

from __future__ import annotations

import os
from pathlib import Path

import attrs
import pytest

from power_core.compute_placement import processors_of
from power_core.config import resolve
from power_core.errors import ConfigError
from power_core.planning import context_settings, note_missing_gpu
from power_core.settings import SessionSettings
from power_core.target import ModelInfo
from power_core.testing.fakes import FakeModel
from power_core.tokens import TapRequest

MINE = sorted(os.sched_getaffinity(0))
OTHER = max(MINE) + 1


def info(*devices: str) -> ModelInfo:
    return attrs.evolve(FakeModel(n_vocab=97, recurrent=False).info, devices=devices)


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"device": "CUDA0"}, "device", "only together with `gpu_layers`"),
        ({"device": "", "gpu_layers": -1}, "device", "a name"),
        ({"device": 0, "gpu_layers": -1}, "device", "a name"),
        ({"override_tensor": ("ffn",)}, "override_tensor", "PATTERN=BUFFER"),
        ({"override_tensor": ("=CPU",)}, "override_tensor", "PATTERN=BUFFER"),
        ({"override_tensor": ("ffn=",)}, "override_tensor", "PATTERN=BUFFER"),
        ({"override_tensor": ("a\nb=CPU",)}, "override_tensor", "PATTERN=BUFFER"),
        ({"kv_type": "q3_K"}, "kv_type", "one of f16"),
        ({"kv_type": "q8_0", "arithmetic": "fast", "flash_attention": "off"}, "kv_type", "without flash attention"),
        ({"verify_shape": "padded"}, "verify_shape", "early-stop, fixed"),
        ({"device_sampling": True}, "device_sampling", "on, off"),
        ({"device_sampling": "on", "arithmetic": "guarded"}, "device_sampling", "reads the logits"),
        ({"threads_batch": -1}, "threads_batch", "0 to 1024"),
        ({"cpu_mask": "0"}, "cpu_mask", "hexadecimal"),
        ({"cpu_mask": "3,4"}, "cpu_mask", "hexadecimal"),
        ({"cpu_mask": f"{1 << OTHER:x}"}, "cpu_mask", "processors of this process"),
    ],
)
def test_what_cannot_be_is_refused_by_name(changes: dict[str, object], field: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SessionSettings(**changes)  # type: ignore[arg-type]
    assert caught.value.field == field
    assert words in str(caught.value)


def test_a_mask_names_processors_lowest_first() -> None:
    mask = sum(1 << number for number in MINE)
    assert processors_of(f"{mask:x}") == processors_of(f"0x{mask:X}") == tuple(MINE)
    assert processors_of(None) == ()


def test_the_settings_reach_the_context() -> None:
    settings = SessionSettings(
        threads=2, threads_batch=3, cpu_mask=f"{1 << MINE[0]:x}", kv_type="q8_0", device_sampling="on"
    )
    opened = context_settings(settings, FakeModel(n_vocab=97, recurrent=False).info, TapRequest(), 4, 256)
    assert (opened.threads, opened.rows_threads, opened.processors) == (2, 3, (MINE[0],))
    assert (opened.kv_type, opened.device_choice) == ("q8_0", True)


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("main_gpu = 1\ngpu_layers = -1", "device", "1"),
        ('main_gpu = "CUDA1"\ngpu_layers = 8', "device", "CUDA1"),
        ('override_tensor = ["ffn=CPU", "attn=CPU"]', "override_tensor", ("ffn=CPU", "attn=CPU")),
        ('override_tensor = "ffn=CPU"', "override_tensor", ("ffn=CPU",)),
        ("device_sampling = true", "device_sampling", "on"),
        ("num_thread_batch = 4", "threads_batch", 4),
        ('kv_type = "q8_0"', "kv_type", "q8_0"),
        ('verify_shape = "fixed"', "verify_shape", "fixed"),
    ],
)
def test_keys_of_a_file(tmp_path: Path, text: str, field: str, value: object) -> None:
    file = tmp_path / "power.toml"
    file.write_text(text, encoding="utf-8")
    assert getattr(resolve({}, file).session, field) == value


def test_layers_for_a_gpu_that_is_not_there_are_an_event() -> None:
    events: list[dict[str, object]] = []
    note_missing_gpu(SessionSettings(gpu_layers=-1), info(), events)
    assert [(event["event"], event["asked"]) for event in events] == [("no_gpu", -1)]
    for settings, devices in ((SessionSettings(gpu_layers=-1), ("CUDA0",)), (SessionSettings(), ())):
        events.clear()
        note_missing_gpu(settings, info(*devices), events)
        assert events == []
