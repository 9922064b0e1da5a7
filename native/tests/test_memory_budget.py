"""The memory that counts is the tightest of the system's and every control group's."""

import pytest

from power_core.errors import OutOfMemoryError
from power_native._memory_budget import available_memory, model_file_bytes, require_memory

GIB = 1 << 30


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def meminfo(available_bytes):
    return f"MemTotal: 99999999 kB\nMemAvailable:   {available_bytes // 1024} kB\n"


def test_system_alone(tmp_path):
    limit = available_memory(write(tmp_path, {"proc/meminfo": meminfo(3 * GIB)}))
    assert limit.available_bytes == 3 * GIB
    assert "MemAvailable" in limit.source


def test_version_2_group_counts_page_cache_as_free(tmp_path):
    root = write(
        tmp_path,
        {
            "proc/meminfo": meminfo(8 * GIB),
            "proc/self/cgroup": "0::/app\n",
            "sys/fs/cgroup/app/memory.max": f"{2 * GIB}\n",
            "sys/fs/cgroup/app/memory.current": f"{GIB}\n",
            "sys/fs/cgroup/app/memory.stat": f"anon 5\nactive_file {GIB // 4}\ninactive_file {GIB // 4}\n",
        },
    )
    limit = available_memory(root)
    assert limit.available_bytes == 2 * GIB - GIB // 2
    assert f"{2 * GIB:,}" in limit.source


def test_limit_of_an_ancestor_binds(tmp_path):
    root = write(
        tmp_path,
        {
            "proc/meminfo": meminfo(8 * GIB),
            "proc/self/cgroup": "0::/outer/inner\n",
            "sys/fs/cgroup/outer/inner/memory.max": "max\n",
            "sys/fs/cgroup/outer/inner/memory.current": "5\n",
            "sys/fs/cgroup/outer/memory.max": f"{GIB}\n",
            "sys/fs/cgroup/outer/memory.current": "0\n",
        },
    )
    assert available_memory(root).available_bytes == GIB


@pytest.mark.parametrize(("limit_bytes", "expected_bytes"), [(GIB, GIB - 100), (9223372036854771712, 8 * GIB)])
def test_version_1_group(tmp_path, limit_bytes, expected_bytes):
    root = write(
        tmp_path,
        {
            "proc/meminfo": meminfo(8 * GIB),
            "proc/self/cgroup": "3:cpu,cpuacct:/x\n4:memory:/x\n",
            "sys/fs/cgroup/memory/x/memory.limit_in_bytes": f"{limit_bytes}\n",
            "sys/fs/cgroup/memory/x/memory.usage_in_bytes": "300\n",
            "sys/fs/cgroup/memory/x/memory.stat": "total_active_file 150\ntotal_inactive_file 50\n",
        },
    )
    assert available_memory(root).available_bytes == expected_bytes


def test_use_above_the_limit_leaves_nothing(tmp_path):
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": "100\n",
            "sys/fs/cgroup/memory.current": "500\n",
        },
    )
    assert available_memory(root).available_bytes == 0


def test_nothing_readable_means_unknown(tmp_path):
    limit = available_memory(tmp_path)
    assert limit is None
    require_memory(10**18, "a model", hint="", limit=limit)


def test_refusal_has_the_numbers_and_the_hint(tmp_path):
    limit = available_memory(write(tmp_path, {"proc/meminfo": meminfo(GIB)}))
    with pytest.raises(OutOfMemoryError) as caught:
        require_memory(2 * GIB, "the model 'x.gguf'", hint="use a smaller quantisation", limit=limit)
    assert "the model 'x.gguf' needs 2,147,483,648 bytes" in str(caught.value)
    assert "1,073,741,824 bytes are available" in str(caught.value)
    assert caught.value.hint == "use a smaller quantisation"
    assert caught.value.user_mistake


def test_device_memory_adds_to_the_budget(tmp_path):
    limit = available_memory(write(tmp_path, {"proc/meminfo": meminfo(GIB)}))
    require_memory(2 * GIB, "a model", hint="", limit=limit, extra_bytes=GIB)
    with pytest.raises(OutOfMemoryError, match="on devices"):
        require_memory(2 * GIB + 1, "a model", hint="", limit=limit, extra_bytes=GIB)


def test_all_parts_of_a_split_model_count(tmp_path):
    for number, size in enumerate((10, 200, 3000), start=1):
        (tmp_path / f"model-{number:05}-of-00003.gguf").write_bytes(b"x" * size)
    (tmp_path / "model-00004-of-00004.gguf").write_bytes(b"x" * 50)
    (tmp_path / "other-00002-of-00003.gguf").write_bytes(b"x" * 50)
    assert model_file_bytes(tmp_path / "model-00001-of-00003.gguf") == 3210
    (tmp_path / "model-00002-of-00003.gguf").unlink()
    assert model_file_bytes(tmp_path / "model-00001-of-00003.gguf") == 3010


def test_a_model_of_one_file_counts_itself(tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"x" * 70)
    assert model_file_bytes(tmp_path / "model.gguf") == 70
