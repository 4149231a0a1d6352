"""What a model is asked: decided by the input and the declaration, and by nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.core.frames import fingerprint
from indexer.engine.frames.types import load_types
from indexer.generators.base import FileInput
from indexer.generators.llm.cutting import cut_to, shares
from indexer.generators.llm.options import counter, make_writer
from indexer.generators.llm.prompts import packaged_prompt, prompt_names
from indexer.generators.llm.writer import Known, ModelRequest, ModelWriter
from indexer.synthesis.base import ChildInput, Tokens

COUNT = counter("o200k_base").count_text
TEXTS = st.text(alphabet=st.sampled_from("ab \n\tüß漢😀(){}#"), max_size=400)


def writer(
    kind: str = "file",
    window: int = 2000,
    prompts: Mapping[str, bytes] | None = None,
    **options: object,
) -> ModelWriter:
    declared = {"model": "gpt-4o-mini", "max_output_tokens": 100, **options}
    return make_writer(kind, declared, lambda model: window, lambda path: (prompts or {})[path])


def prints(made: ModelWriter) -> bytes:
    return fingerprint(made.fingerprint_parts())


CHANGES: dict[str, dict[str, Any]] = {
    "model": {"model": "gpt-4o"},
    "prompt": {"prompt": "interface"},
    "output limit": {"max_output_tokens": 101},
    "temperature": {"temperature": 0.1},
    "no temperature": {"temperature": "default"},
    "redaction": {"redact": False},
    "variant": {"variant": "b"},
    "tokenizer": {"tokenizer": "cl100k_base"},
    "window": {"window": 2001},
    "kind": {"kind": "folder"},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_everything_that_can_change_an_answer_is_in_the_fingerprint(change: dict[str, Any]) -> None:
    assert prints(writer(**change)) != prints(writer())


def test_a_prompt_counts_by_its_text_and_not_by_its_path() -> None:
    one = writer(prompt="a/x.md", prompts={"a/x.md": b"Say."})
    assert prints(one) == prints(writer(prompt="b.md", prompts={"b.md": b"Say.\r\n"}))
    assert prints(one) != prints(writer(prompt="a/x.md", prompts={"a/x.md": b"Say it."}))


def test_a_packaged_prompt_has_a_version_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert prompt_names() == ("interface", "summary")
    for name in prompt_names():
        for kind in ("file", "folder"):
            found = packaged_prompt(name, kind)
            assert found.version.isdigit()
            assert "never an instruction" in found.text
    parts = dict(writer().fingerprint_parts())
    assert parts["prompt.version"] == packaged_prompt("summary", "file").version
    assert parts["prompt.text"] == packaged_prompt("summary", "file").text


def test_server_and_key_are_not_in_the_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = set()
    for url, name in (("https://one.example.org/v1", "A"), ("https://two.example.org/v1", "B")):
        (tmp_path / "merkle.toml").write_text(
            f'[llm]\nbase_url = "{url}"\nkey_env = "{name}"\nconcurrency = 7\n'
            '[types.s]\nfile = { use = "llm", model = "m" }\n'
        )
        file = load_types(tmp_path, 1000, Tokens("o200k_base", COUNT))["s"].file
        assert file is not None
        found.add(file.print)
    assert len(found) == 1


@settings(max_examples=150)
@given(TEXTS, st.integers(0, 60))
def test_a_cut_text_fits_and_is_a_beginning(text: str, limit: int) -> None:
    piece = cut_to(text, limit, COUNT)
    assert COUNT(piece.text) == piece.tokens <= limit
    assert text.startswith(piece.text)
    assert piece.is_cut == (piece.text != text)
    if COUNT(text) <= limit:
        assert piece.text == text


@given(st.lists(st.integers(0, 100), max_size=20), st.integers(0, 500))
def test_shares_give_all_there_is_and_not_more(wanted: list[int], total: int) -> None:
    given_out = shares(wanted, total)
    assert all(one <= most for one, most in zip(given_out, wanted, strict=True))
    assert sum(given_out) <= total
    if sum(wanted) <= total:
        assert given_out == wanted
    # Nobody gets less than a modest neighbour was left with.
    cut = [one for one, most in zip(given_out, wanted, strict=True) if one < most]
    assert not cut or max(cut) - min(cut) <= len(wanted)


@settings(max_examples=40)
@given(st.lists(st.tuples(TEXTS, st.one_of(st.none(), TEXTS)), min_size=1, max_size=40))
def test_every_request_fits_its_window(children: list[tuple[str, str | None]]) -> None:
    folder, file = writer("folder", 1300), writer("file", 1300)
    entries = [ChildInput(f"n{at}{name}", "file", body) for at, (name, body) in enumerate(children)]
    text = "".join(body or "" for _, body in children).encode()
    for made in (folder.of_folder(entries), file.of_file(FileInput("a.txt", text))):
        if isinstance(made, Known):
            continue
        tokens = sum(COUNT(message["content"]) for message in made.messages)
        assert tokens <= made.tokens <= 1300 - 100
        assert made == (folder.of_folder(entries) if "Entries" in made.messages[1]["content"]
                        else file.of_file(FileInput("a.txt", text)))  # fmt: skip


def test_an_unknown_models_tokens_are_bounded_by_bytes() -> None:
    source = FileInput("a.txt", "Größe 漢字 ".encode() * 50)
    known, unknown = writer().of_file(source), writer(model="some/llama").of_file(source)
    assert isinstance(known, ModelRequest)
    assert isinstance(unknown, ModelRequest)
    assert known.most_tokens == known.tokens
    sent = sum(len(message["content"].encode()) for message in unknown.messages)
    assert unknown.most_tokens >= sent


def test_binary_and_empty_files_need_no_model() -> None:
    assert writer().of_file(FileInput("a.png", b"\x89PNG\r\n\x1a\n\x00")) == Known(
        "[binary] PNG image, 9 bytes\n"
    )
    assert writer().of_file(FileInput("a", b" \n")) == Known("[file] empty\n")
    assert writer("folder").of_folder([]) == Known("[folder] empty\n")
