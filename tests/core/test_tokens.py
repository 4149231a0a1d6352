"""Token counts equal tiktoken's own, offline, whatever the text."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import random
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiktoken
import tiktoken_ext.openai_public as published
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.core import encodings
from indexer.core.encodings import ENCODINGS, TokenTableError, UnknownEncodingError, count_tokens
from indexer.core.few_tokens import FewTokens
from indexer.core.tokens import (
    CountCache,
    NullTokenCounter,
    TiktokenCounter,
    TokenCounter,
    text_sha256,
)

RANKS = Path(encodings.__file__).parent / "ranks"
BOTH = sorted(ENCODINGS)
LONG = functools.partial(pytest.param, marks=pytest.mark.soak)
"""A case that takes a second to count, where small texts with `short_runs` show the same."""
BLANKS = " \t\u00a0\u3000\u2028\x85\x0b"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tiktoken.Encoding]]:
    """The encodings exactly as tiktoken builds them itself, from a cache it believes in."""
    folder = tmp_path_factory.mktemp("tiktoken")
    for name in BOTH:
        url = f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
        table = gzip.decompress((RANKS / f"{name}.tiktoken.gz").read_bytes())
        (folder / hashlib.sha1(url.encode()).hexdigest()).write_bytes(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
        yield {name: tiktoken.Encoding(**published.ENCODING_CONSTRUCTORS[name]()) for name in BOTH}


@pytest.fixture
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs count as long from three characters on, so that small texts reach the cutting."""
    monkeypatch.setattr(encodings, "RUN_LIMIT", 3)


def corpus() -> list[str]:
    """Files of the standard library, the ones with the most unusual text among them."""
    library = Path(sysconfig.get_path("stdlib"))
    paths = sorted(library.glob("*.py"))[::4] + sorted(library.glob("encodings/*.py"))[::12]
    paths += sorted((library / "idlelib").glob("*.txt")) + sorted(library.glob("lib2to3/*.txt"))
    paths += [library / "pydoc_data" / "topics.py", library / "html" / "entities.py"]
    return [path.read_text(encoding="utf-8", errors="replace") for path in paths if path.is_file()]


@pytest.mark.parametrize("every", [5, LONG(1)])
@pytest.mark.parametrize("name", BOTH)
def test_counts_equal_tiktokens_own_on_real_files(
    name: str, every: int, own: dict[str, tiktoken.Encoding]
) -> None:
    texts = corpus()
    assert len(texts) > 50
    counter = TiktokenCounter(encoding_name=name)
    for text in texts[::every]:
        assert counter.count_text(text) == len(own[name].encode_ordinary(text))


@pytest.mark.parametrize("name", BOTH)
def test_the_encoding_is_tiktokens_own_in_every_part(
    name: str, own: dict[str, tiktoken.Encoding]
) -> None:
    ours = encodings.load_encoding(name)
    assert ours._pat_str == own[name]._pat_str
    assert ours._special_tokens == own[name]._special_tokens
    assert encodings.read_ranks(encodings.ENCODINGS[name]) == own[name]._mergeable_ranks


@pytest.mark.parametrize("name", BOTH)
@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=200))
def test_counts_equal_tiktokens_own_on_any_text(
    name: str, own: dict[str, tiktoken.Encoding], text: str
) -> None:
    assert count_tokens(name, text) == len(own[name].encode_ordinary(text))


@pytest.mark.parametrize("name", BOTH)
def test_special_tokens_count_as_ordinary_text(
    name: str, own: dict[str, tiktoken.Encoding]
) -> None:
    text = "<|endoftext|> and <|endofprompt|><|fim_prefix|>"
    count = TiktokenCounter(encoding_name=name).count_text(text)
    assert count == len(own[name].encode(text, disallowed_special=()))
    assert count > 10


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\ude00\ud83d", "x" * 50 + "\ud83d"])
def test_a_lone_surrogate_counts_as_the_replacement_character(text: str) -> None:
    replaced = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
    counter = TiktokenCounter()
    assert counter.count_text(text) == counter.count_text(replaced)


def test_a_surrogate_pair_counts_as_its_character() -> None:
    counter = TiktokenCounter()
    assert counter.count_text("\ud83d\ude00!") == counter.count_text("\U0001f600!")


@pytest.mark.parametrize("name", [LONG(BOTH[0]), *BOTH[1:]])
@pytest.mark.parametrize("frame", [LONG("{}"), "x\n{}!", LONG("1{}\u00e9 {}\n")])
def test_blank_runs_that_make_tiktoken_panic_are_counted(name: str, frame: str) -> None:
    run = " " * 1_100_000
    count = count_tokens(name, frame.replace("{}", run))
    # The longest token of blanks has 128 characters.
    assert len(run) // 128 <= count // frame.count("{}") <= len(run) // 64


@pytest.mark.parametrize("name", [LONG(BOTH[0]), *BOTH[1:]])
@pytest.mark.parametrize("frame", [LONG("9{}"), "x{}y"])
def test_blank_runs_just_below_the_panic_equal_tiktokens_own(
    name: str, frame: str, own: dict[str, tiktoken.Encoding]
) -> None:
    text = frame.format(" " * 999_000)
    assert count_tokens(name, text) == len(own[name].encode_ordinary(text))


@pytest.mark.usefixtures("short_runs")
@pytest.mark.parametrize("name", BOTH)
def test_cutting_blank_runs_changes_no_count(name: str, own: dict[str, tiktoken.Encoding]) -> None:
    rng = random.Random(name)
    alphabet = [*BLANKS, " ", " ", "\n", "\r\n", "a", "B", "7", "!", "/", "'s", "\x1c", "\u00e9"]
    for _ in range(4000):
        parts = rng.choices(alphabet, k=rng.randint(1, 12))
        text = "".join(part * rng.choice([1, 1, 2, 3, 7]) for part in parts)
        assert count_tokens(name, text) == len(own[name].encode_ordinary(text)), ascii(text)


def test_a_panic_becomes_an_error_of_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    panic = type("PanicException", (BaseException,), {})

    def give_up(text: str) -> list[int]:
        raise panic

    monkeypatch.setattr(
        encodings, "load_encoding", lambda name: SimpleNamespace(encode_ordinary=give_up)
    )
    with pytest.raises(TokenTableError, match="gave up on 4 characters"):
        count_tokens("cl100k_base", "text")


def test_an_interrupt_is_not_mistaken_for_a_panic(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(text: str) -> list[int]:
        raise KeyboardInterrupt

    monkeypatch.setattr(
        encodings, "load_encoding", lambda name: SimpleNamespace(encode_ordinary=interrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        count_tokens("cl100k_base", "text")


# Every kind of character that is counted without the encoder, and some that are not.
_KINDS = [*map(chr, range(256)), *"\u2013\u2026\u2192\u2500\u017f\u212a\u3000\u4e00"]
_EDGES = list(" \n\r\t'sTLlreveD9/.Aa\x1c\x1f\x0b\x85\xa0\xaa\xb2\xb5\xdf")


def few_tokens(monkeypatch: pytest.MonkeyPatch) -> FewTokens:
    """A counter that never has enough."""
    monkeypatch.setattr("indexer.core.few_tokens.MOST_CHARACTERS", sys.maxsize)
    return FewTokens(encodings.read_ranks(ENCODINGS["o200k_base"]))


def test_what_is_counted_without_the_encoder_is_what_it_counts(
    own: dict[str, tiktoken.Encoding], monkeypatch: pytest.MonkeyPatch
) -> None:
    few, encoder, rng, sure = few_tokens(monkeypatch), own["o200k_base"], random.Random(5), 0
    texts = corpus()
    for alphabet in (_KINDS, _KINDS[:128], _EDGES):
        texts += ["".join(rng.choices(alphabet, k=rng.randint(1, 40))) for _ in range(4000)]
    for text in texts:
        count = few.count(text)
        if count is not None:
            sure += 1
            assert count == len(encoder.encode_ordinary(text)), ascii(text[:200])
    assert sure > 0.7 * len(texts)


def test_the_encoder_is_asked_where_it_may_split_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = few_tokens(monkeypatch)
    assert few.count("plain") is not None
    assert few.count("\u4e00") is None
    assert few.count("\ud800") is None
    assert few.count("x" * 1000) is None


FEW = """
import sys
from indexer.core import encodings
from indexer.core.tokens import TiktokenCounter
counter = TiktokenCounter(encoding_name="o200k_base")
counts = [counter.count_text(f"{number} hello world") for number in range(10)]
assert "tiktoken" not in sys.modules
counts += [counter.count_text(f"{number} hello world " * 100) for number in range(500)]
assert "tiktoken" in sys.modules and not encodings._few
print(counts)
"""


def test_the_first_short_texts_need_no_encoder(own: dict[str, tiktoken.Encoding]) -> None:
    root = Path(encodings.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", FEW], env={"PYTHONPATH": str(root)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    texts = [f"{number} hello world" for number in range(10)]
    texts += [f"{number} hello world " * 100 for number in range(500)]
    assert done.stdout.strip() == str([len(own["o200k_base"].encode_ordinary(t)) for t in texts])


def test_who_counts_many_texts_makes_the_encoder_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encodings, "_loaded", {})
    monkeypatch.setattr(encodings, "_count_few", lambda name, text: pytest.fail("counted alone"))
    counter = TiktokenCounter(encoding_name="o200k_base")
    counter.many = True
    assert counter.count_text("hello world") == 2


@pytest.mark.parametrize("name", BOTH)
def test_the_ranks_are_those_that_the_table_says(name: str) -> None:
    lines = gzip.decompress((RANKS / f"{name}.tiktoken.gz").read_bytes()).splitlines()
    said = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines)}
    assert encodings.read_ranks(ENCODINGS[name]) == said


OFFLINE = """
import socket, sys
def refuse(*args, **kwargs):
    raise OSError("the network is cut off")
socket.socket = socket.create_connection = socket.getaddrinfo = refuse
from indexer.core.tokens import TiktokenCounter
assert "tiktoken" not in sys.modules
print([TiktokenCounter(encoding_name=n).count_text("hello world") for n in sys.argv[1:]])
print(TiktokenCounter("gpt-4").count_text("hello"), TiktokenCounter("nobody-1").encoding_name)
assert "requests" not in sys.modules
"""


def test_counting_never_touches_the_network(tmp_path: Path) -> None:
    root = Path(encodings.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE, *BOTH],
        env={"PYTHONPATH": str(root), "TIKTOKEN_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split("\n")[:2] == ["[2, 2]", "1 o200k_base"]
    assert list(tmp_path.iterdir()) == []


def test_importing_or_creating_a_counter_reads_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encodings, "_loaded", {})
    monkeypatch.setattr(encodings, "read_ranks", lambda facts: pytest.fail("read a table"))
    cache = CountCache()
    cache.put(text_sha256("known"), 1)
    counter = TiktokenCounter(encoding_name="cl100k_base", cache=cache)
    assert counter.count_text("known") == 1
    assert counter.count_text("") == 0


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("gpt-4o", "o200k_base"),
        ("gpt-4", "cl100k_base"),
        ("gpt-3.5-turbo-0301", "cl100k_base"),
        ("o3-mini", "o200k_base"),
        ("totally-unknown-model-xyz", "o200k_base"),
        ("text-davinci-003", "o200k_base"),
        ("", "o200k_base"),
    ],
)
def test_the_encoding_follows_the_model_and_falls_back(model: str, name: str) -> None:
    assert TiktokenCounter(model).encoding_name == name


def test_an_encoding_by_name_wins_over_the_model() -> None:
    assert TiktokenCounter("gpt-4o", "cl100k_base").encoding_name == "cl100k_base"


def test_an_unknown_encoding_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownEncodingError) as caught:
        TiktokenCounter(encoding_name="p50k_base")
    assert "cl100k_base, o200k_base" in caught.value.hint


def test_a_damaged_or_missing_table_is_refused(tmp_path: Path) -> None:
    facts = ENCODINGS["cl100k_base"]
    packed = (RANKS / "cl100k_base.tiktoken.gz").read_bytes()
    broken = {
        "has the wrong SHA-256": gzip.compress(gzip.decompress(packed)[:-1]),
        "cannot read": packed[: len(packed) // 2],
        "Not a gzipped file": b"nothing of the kind",
    }
    for message, data in broken.items():
        (tmp_path / "cl100k_base.tiktoken.gz").write_bytes(data)
        with pytest.raises(TokenTableError, match=message) as caught:
            encodings.read_ranks(facts, tmp_path)
        assert "Reinstall" in caught.value.hint
    (tmp_path / "cl100k_base.tiktoken.gz").unlink()
    with pytest.raises(TokenTableError, match="cannot read"):
        encodings.read_ranks(facts, tmp_path)


def test_the_tables_carry_their_licence_and_no_time_stamp() -> None:
    note = (RANKS / "LICENSE.txt").read_text()
    for name, facts in ENCODINGS.items():
        assert name in note
        assert facts.table_sha256 in note
        assert (RANKS / f"{name}.tiktoken.gz").read_bytes()[4:8] == bytes(4)
    assert "MIT License" in note


def test_messages_cost_their_text_and_their_framing() -> None:
    counter = TiktokenCounter()
    text = counter.count_text
    assert counter.count_messages([]) == 0
    assert counter.count_messages([{"role": "user", "content": "Hello"}]) == (
        3 + text("user") + text("Hello") + 3
    )
    named = {"role": "user", "content": "Hello", "name": "Claude"}
    assert counter.count_messages([named, {"role": "tool", "content": None}]) == (
        (3 + text("user") + text("Hello") + text("Claude") + 1) + (3 + text("tool")) + 3
    )


def test_both_counters_are_token_counters() -> None:
    assert isinstance(TiktokenCounter(), TokenCounter)
    assert isinstance(NullTokenCounter(), TokenCounter)


def test_the_null_counter_counts_nothing() -> None:
    counter = NullTokenCounter()
    assert counter.count_text("some text") == 0
    assert counter.count_messages([{"role": "user", "content": "text"}]) == 0
    assert counter.encoding_name == "null"


def test_a_text_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[str] = []

    def count(name: str, text: str, *, many: bool) -> int:
        encoded.append(text)
        return 7

    monkeypatch.setattr("indexer.core.tokens.count_tokens", count)
    cache = CountCache()
    counter = TiktokenCounter(cache=cache)
    assert [counter.count_text("abc"), counter.count_text("abc")] == [7, 7]
    assert encoded == ["abc"]
    assert cache.get(hashlib.sha256(b"abc").digest()) == 7
    assert len(cache) == 1


def test_the_cache_drops_the_least_recently_used() -> None:
    cache = CountCache(max_entries=2)
    cache.put(b"a", 1)
    cache.put(b"b", 2)
    assert cache.get(b"a") == 1
    cache.put(b"c", 3)
    assert [cache.get(key) for key in (b"a", b"b", b"c")] == [1, None, 3]
    assert len(cache) == 2


def test_many_threads_count_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encodings, "_loaded", {})
    texts = [f"line {n} of some text\n" * (n % 5 + 1) for n in range(60)]
    cache = CountCache(max_entries=10)
    counter = TiktokenCounter(encoding_name="cl100k_base", cache=cache)
    results: list[list[int]] = []

    def work() -> None:
        results.append([counter.count_text(text) for text in texts])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[count_tokens("cl100k_base", text) for text in texts]] * 4
    assert len(cache) == 10
