"""Ranking a target's tokens by the text of files, and the tool that writes the map."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from power_core.artifacts import scan_header
from power_core.errors import ConfigError
from power_core.plugins.manager import load_plugins
from power_core.target import ModelSettings
from power_core.testing.models import build_tiny_target
from power_core.testing.tokenizer import CORPUS
from power_mtp.fr_map import read_fr_map, write_fr_map
from power_mtp.rank_tool import build_fr_map, main
from power_mtp.ranking import rank_tokens

COUNTS = st.lists(st.integers(0, 5), min_size=1, max_size=40).map(lambda values: np.array(values, np.int64))


@given(counts=COUNTS, data=st.data())
def test_ranks_are_the_most_frequent_ones_with_the_end_tokens(counts, data):
    occurring = int(np.count_nonzero(counts))
    always = data.draw(st.sets(st.integers(0, counts.size - 1), max_size=4))
    if occurring < len(always):
        with pytest.raises(ConfigError, match="`rows`"):
            rank_tokens(counts, occurring, always)
        return
    if occurring == 0:
        return
    rows = data.draw(st.integers(max(1, len(always)), occurring))
    ranked = rank_tokens(counts, rows, always).tolist()
    by_rule = sorted(
        (token for token in range(counts.size) if counts[token]), key=lambda token: (-counts[token], token)
    )
    missing = always - set(by_rule[:rows])
    kept = [token for token in by_rule[:rows] if token not in always]
    replaced = kept[len(kept) - len(missing) :]
    assert len(set(ranked)) == len(ranked) == rows
    assert set(ranked) == (set(by_rule[:rows]) - set(replaced)) | always
    assert [token for token in ranked if token not in missing] == [
        token for token in by_rule[:rows] if token not in replaced
    ]


@given(counts=COUNTS, always=st.sets(st.integers(0, 0)))
def test_without_a_number_every_token_that_occurs_has_a_row(counts, always):
    ranked = rank_tokens(counts, None, always).tolist()
    assert set(ranked) == set(np.flatnonzero(counts).tolist()) | always
    assert len(set(ranked)) == len(ranked)


@pytest.mark.parametrize(("rows", "always"), [(4, ()), (1, (0, 1)), (0, (0,)), (-1, ())])
def test_rows_that_cannot_be_are_refused(rows, always):
    with pytest.raises(ConfigError, match=f"`rows` is {rows}, expected from") as caught:
        rank_tokens(np.array([3, 1, 1, 0]), rows, always)
    assert caught.value.field == "rows"


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return build_tiny_target(tmp_path_factory.mktemp("models") / "hybrid.gguf", kind="hybrid", hidden=128)


@pytest.fixture
def texts(tmp_path):
    paths = [tmp_path / "one.txt", tmp_path / "two.txt"]
    for path, text in zip(paths, (CORPUS, "the the river river water\r\nthe"), strict=True):
        path.write_bytes(text.encode())
    return paths


def tokens_of(target, texts):
    model = load_plugins().backend().open_model(ModelSettings(path=target), None)
    tokens = [t for path in texts for t in model.vocabulary.tokenize(path.read_bytes().decode(), add_special=False)]
    ends = {token for token in range(model.info.n_vocab) if model.vocabulary.is_end(token)}
    model.close()
    return tokens, ends


@pytest.mark.native
def test_a_map_holds_the_most_frequent_tokens_and_says_what_they_cover(target, texts):
    fr_map, corpus = build_fr_map(target, texts, 50)
    tokens, ends = tokens_of(target, texts)
    counts = Counter(tokens)
    assert corpus.tokens == fr_map.corpus_tokens == len(tokens)
    assert [counts[token] for token in fr_map.token_ids[:40]] == [count for _, count in counts.most_common(40)]
    assert ends <= set(fr_map.token_ids.tolist())
    assert fr_map.covered_tokens == sum(counts[token] for token in fr_map.token_ids.tolist())


@pytest.mark.native
def test_a_long_text_is_counted_in_pieces_of_whole_lines(target, texts, tmp_path, monkeypatch):
    whole, _ = build_fr_map(target, texts, None)
    monkeypatch.setattr("power_mtp.ranking.CHUNK_CHARACTERS", 1)
    lines = []
    for number, line in enumerate(b"".join(path.read_bytes() for path in texts).splitlines(keepends=True)):
        lines.append(tmp_path / f"{number}.txt")
        lines[-1].write_bytes(line)
    pieces, count = build_fr_map(target, texts, None)
    assert count.tokens == len(tokens_of(target, lines)[0])
    assert pieces.corpus_sha256 == whole.corpus_sha256


@pytest.mark.native
def test_the_tool_writes_what_a_session_reads(target, texts, tmp_path, capsys):
    out = tmp_path / "ranked.gguf"
    arguments = ["--model", str(target), "--rows", "100", "--out", str(out), *map(str, texts)]
    assert main(arguments) == 0
    fr_map = read_fr_map(out, scan_header(target))
    shown = capsys.readouterr().out
    assert len(fr_map.token_ids) == 100
    assert fr_map.d2t_sha256 in shown
    share = f"{fr_map.covered_tokens / fr_map.corpus_tokens:.2%}"
    assert shown.splitlines()[-1].split() == ["100", "rows", share]
    assert "share of corpus tokens inside the set" in shown
    before = out.read_bytes()
    assert main(arguments) == 2
    assert "exists" in capsys.readouterr().err
    assert main([*arguments, "--force"]) == 0
    assert out.read_bytes() == before


@pytest.mark.native
@pytest.mark.parametrize(
    ("content", "rows", "words"),
    [
        (b"", "5", "the files hold no token"),
        (b"one two", "500", "`rows` is 500, expected from"),
        (b"\xff\xfe", "5", "cannot be counted: no UTF-8"),
        (None, "5", "cannot be counted: No such file"),
    ],
)
def test_what_cannot_be_counted_is_refused_and_nothing_is_written(target, tmp_path, capsys, content, rows, words):
    text, out = tmp_path / "text.txt", tmp_path / "ranked.gguf"
    if content is not None:
        text.write_bytes(content)
    assert main(["--model", str(target), "--rows", rows, "--out", str(out), str(text)]) == 2
    assert words in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.native
def test_a_folder_that_is_not_there_is_refused(target, texts, tmp_path, capsys):
    out = tmp_path / "absent" / "ranked.gguf"
    assert main(["--model", str(target), "--out", str(out), *map(str, texts)]) == 2
    assert "cannot be written: No such file or directory" in capsys.readouterr().err


@pytest.mark.native
def test_a_broken_write_leaves_the_old_map(target, texts, tmp_path, monkeypatch):
    out = tmp_path / "ranked.gguf"
    fr_map, _ = build_fr_map(target, texts, 20)
    write_fr_map(out, fr_map)
    before = out.read_bytes()

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("gguf.GGUFWriter.write_tensors_to_file", fail)
    with pytest.raises(KeyboardInterrupt):
        write_fr_map(out, fr_map)
    assert out.read_bytes() == before
    assert [path.name for path in tmp_path.glob("*ranked*")] == ["ranked.gguf"]
