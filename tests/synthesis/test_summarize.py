"""The summary: what comes first, what is cut, what leaves it unchanged, how it scales."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.synthesis import ChildInput, Tokens
from indexer.synthesis.gist import gist_of, symbol_name
from indexer.synthesis.summarize import Summarize

# Close to what a tokenizer does: words, signs and line ends.
WORDS = Tokens("words", lambda text: len(re.findall(r"\w{1,6}|[^\w\s]|\n", text)))
BYTES = Tokens("bytes", lambda text: len(text.encode("utf-8", "replace")))
# Not additive on purpose: a long text costs more than its parts.
RISING = Tokens("rising", lambda text: len(text) + (len(text) // 40) ** 2)

FOLDER = [
    ChildInput("README.md", "file", "[markdown] Engine\n> Runs plans. Slowly.\n- Usage\n"),
    ChildInput("__init__.py", "file", "[python] The package.\n"),
    ChildInput("core", "directory", "[folder] Nouns and ids.\n- a.py -- x\n"),
    ChildInput("empty.txt", "file", "[text] empty file\n"),
    ChildInput(
        "plan.py",
        "file",
        "[python] Plans.\nLIMIT = 3\nclass Plan(Base)\n  def m(self)\ndef run(p)\n",
    ),
    ChildInput("pointer", "link", None),
    ChildInput("tools", "directory", "[folder]\n- b.py -- y\nalso: c.py, d.py\n"),
    ChildInput("unframed.py", "file", None),
]


def test_what_a_newcomer_wants_first() -> None:
    assert Summarize(WORDS).synthesize(FOLDER) == (
        "[folder] Engine\n"
        "> Runs plans. Slowly.\n"
        "- core/ -- Nouns and ids.\n"
        "- tools/ -- b.py, c.py, d.py\n"
        "- __init__.py -- The package.\n"
        "- empty.txt -- empty file\n"
        "- plan.py -- Plans. (Plan, run, LIMIT)\n"
        "also: README.md, pointer (link), unframed.py\n"
    )


def test_without_a_readme_the_entry_file_speaks() -> None:
    text = Summarize(WORDS).synthesize(FOLDER[1:])
    assert text.startswith("[folder] The package.\n- core/")


def test_names_come_before_details_and_details_are_shared() -> None:
    children = [
        ChildInput(f"m{n:02}.py", "file", f"[python] Module number {n} does a thing.\n")
        for n in range(40)
    ]
    text = Summarize(WORDS, 320).synthesize(children)
    assert all(child.name in text for child in children)
    assert "m00.py -- Module number 0" in text
    assert "left out" not in text
    short = Summarize(WORDS, 100).synthesize(children)
    assert re.search(r"left out: \d+ files\n$", short)
    assert " -- " in short


def test_folders_and_files_share_the_names() -> None:
    folders = [ChildInput(f"a{n:03}", "directory", None) for n in range(300)]
    files = [ChildInput(f"b{n:03}", "file", None) for n in range(300)]
    text = Summarize(WORDS, 200).synthesize(folders + files)
    assert "a000/" in text
    assert "b000" in text
    assert re.search(r"left out: \d+ folders, \d+ files\n$", text)


def test_left_out_and_named_add_up() -> None:
    children = [ChildInput(f"file{n:04}.py", "file", "[python] x\n") for n in range(2000)]
    text = Summarize(WORDS).synthesize(children)
    # No match is a failure too.
    left = int(re.search(r"left out: (\d+) files", text)[1])  # type: ignore[index]
    assert left + len(set(re.findall(r"file\d{4}\.py", text))) == 2000


@settings(derandomize=True, max_examples=150, deadline=None)
@given(
    limit=st.integers(32, 400),
    count=st.integers(0, 60),
    width=st.integers(1, 80),
    body=st.text(max_size=200),
    tokens=st.sampled_from([WORDS, BYTES, RISING]),
)
def test_never_longer_than_the_limit(
    limit: int, count: int, width: int, body: str, tokens: Tokens
) -> None:
    children = [
        ChildInput(f"{n:03}{'é' * width}", "directory" if n % 3 else "file", f"[python] {body}\n")
        for n in range(count)
    ]
    children.append(ChildInput("readme.md", "file", f"[markdown] {body}\n> {body}\n"))
    assert tokens.count(Summarize(tokens, limit).synthesize(children)) <= limit


def test_an_edit_beyond_the_gist_leaves_the_parent_alone() -> None:
    def parent(body: str) -> str:
        return Summarize(WORDS).synthesize([*FOLDER[:4], ChildInput("p.py", "file", body)])

    one = "[python] Plans.\nimports: os\nclass Plan(Base) -- A plan.\n  def m(self)\ndef run(p)\n"
    other = "[python] Plans.\nimports: re\nclass Plan(Other)\n  def n(self, b)\ndef run(p, q=1)\n"
    assert parent(one) == parent(other)
    assert parent(one) != parent(one.replace("Plans", "Other plans"))
    assert parent(one) != parent(one.replace("run", "walk"))


def test_ten_thousand_children_in_well_under_a_second() -> None:
    calls = 0

    def count(text: str) -> int:
        nonlocal calls
        calls += 1
        return WORDS.count(text)

    body = "[python] A module.\n" + "".join(f"def f{n}(a, b)\n" for n in range(50))
    children = [ChildInput(f"module_{n:05}.py", "file", body) for n in range(10_000)]
    start = time.perf_counter()
    text = Summarize(Tokens("words", count)).synthesize(children)
    assert time.perf_counter() - start < 0.5
    assert WORDS.count(text) <= 800
    # By count, too, since machines differ: names stop with the budget.
    assert calls < 2000


def test_only_missing_frames() -> None:
    children = [ChildInput("a.py", "file", None), ChildInput("b", "directory", None)]
    assert Summarize(WORDS).synthesize(children) == "[folder]\nalso: b/, a.py\n"


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("", ""),
        ("[python] Does things.\ndef f()\n", "Does things."),
        ("[python]\nclass A -- The A.\ndef f()\n", "A, f"),
        ("[python]\ndef _p()\ndef f(a)\nX = 1\n", "f, X"),
        ("[markdown] Title\n> It is. More.\n", "Title -- It is."),
        ("[folder]\n- a.py -- x\nalso: b, c\n", "a.py, b, c"),
        ("# Title\n\nFirst one. Second.\n", "Title -- First one."),
        ("A model wrote this. And that.", "A model wrote this."),
        ("[text] first\n| first\n| second\n", "first"),
    ],
)
def test_gist(body: str, line: str) -> None:
    assert gist_of(body).line(80) == line


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        ("class Ledger(Journal, metaclass=type)", "Ledger"),
        ("@dataclass(frozen=True) class Entry", "Entry"),
        ("async def post(self, entry: Entry) -> int", "post"),
        ("MAX: int = 3", "MAX"),
        ("type Amount = int | float", "Amount"),
        ("export default class Cart extends Base", "Cart"),
        ("export const discount = async(cart, ...rules)", "discount"),
        ("Cart.prototype.legacy = function(a, b)", "legacy"),
        ("function* ids()", "ids"),
        ("@Injectable() export abstract class Router<T extends object = {}>", "Router"),
        ("export interface Route<T> extends Base", "Route"),
        ("func (s *Server) Serve(ctx context.Context) (n int, err error)", "Serve"),
        ("func Map[T, U any](in []T) []U", "Map"),
        ("type Server struct", "Server"),
        ("const MaxConns = 512", "MaxConns"),
        ("const StateIdle State = iota", "StateIdle"),
        ("#[derive(Debug, Clone)] pub struct Queue<'a, T: Clone> where T: Send", "Queue"),
        ("pub const CAPACITY: usize = 1024", "CAPACITY"),
        ("static mut OPEN: bool = false", "OPEN"),
        ("pub async unsafe fn with_limit<F>(limit: usize)", "with_limit"),
        ("macro_rules! retry", "retry"),
        ("public static final int MAX_ITEMS = 500", "MAX_ITEMS"),
        ("@Override public synchronized <R> List<R> take(final String name)", "take"),
        ("record Item(String name, int price)", "Item"),
        ("enum Level { LOW, HIGH }", "Level"),
        ("#define RING_SIZE 4096", "RING_SIZE"),
        ("typedef void (*ring_drop_fn)(void *item, size_t len)", "ring_drop_fn"),
        ("static inline size_t ring_len(const ring_t *r)", "ring_len"),
        ("ring_t *ring_new(size_t size)", "ring_new"),
        ("static const int RETRIES = 3", "RETRIES"),
        ("extern int ring_debug", "ring_debug"),
        ("describe('Cart')", "describe"),
        ("***", ""),
    ],
)
def test_symbol_name(signature: str, name: str) -> None:
    assert symbol_name(signature) == name
