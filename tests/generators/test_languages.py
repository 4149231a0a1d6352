"""The languages of the extra `languages`: symbols, signatures and uses of a sample of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.core.code import CodeFacts, unpack_uses
from indexer.generators import FileInput, make_generator
from indexer.generators.facts import facts_of
from indexer.generators.parsed import parse
from indexer.generators.references import uses_in
from indexer.generators.treesitter import GRAMMARS, is_parsed

SAMPLES = Path(__file__).parent / "languages"

# Name of the sample: its language, its symbols, and uses that it has (inside of what, what).
EXPECTED = {
    "shape.cpp": (
        "c++",
        {
            "module geometry", "constant geometry.MAX_SIDES", "enum geometry.Color",
            "type geometry.Points", "class geometry.Shape", "prototype geometry.Shape.Shape",
            "method geometry.Shape.~Shape", "prototype geometry.Shape.area",
            "method geometry.Shape.load", "field geometry.Shape.points_", "struct geometry.Size",
            "field geometry.Size.width", "field geometry.Size.height",
            "method geometry.Shape.area", "function geometry.sides", "function main",
        },
        {("geometry.Shape.area", "measure"), ("main", "geometry.sides"), ("main", "make")},
        {("base/point.h", "*")},
    ),
    "Store.cs": (
        "c#",
        {
            "module Shop.Stock", "class Shop.Stock.Store", "constant Shop.Stock.Store.MaxItems",
            "field Shop.Stock.Store.Count", "field Shop.Stock.Store.Changed",
            "method Shop.Stock.Store.Store", "method Shop.Stock.Store.TakeAsync",
            "method Shop.Stock.Store.Find", "interface Shop.Stock.IStore",
            "field Shop.Stock.IStore.Count", "method Shop.Stock.IStore.Clear",
            "enum Shop.Stock.Level", "class Shop.Stock.Item", "struct Shop.Stock.Size",
            "field Shop.Stock.Size.Width", "type Shop.Stock.Handler",
        },
        {("Shop.Stock.Store.TakeAsync", "Find"), ("Shop.Stock.Store.Find", "_items.Find")},
        {("System.Collections", "Generic")},
    ),
    "queue.rb": (
        "ruby",
        {
            "module Jobs", "constant Jobs.MAX_TRIES", "class Jobs.Queue",
            "method Jobs.Queue.initialize", "method Jobs.Queue.push", "method Jobs.Queue.open",
            "method Jobs.Queue.notify", "function helper",
        },
        {("Jobs.Queue.push", "notify"), ("helper", "Jobs.Queue.open"), ("helper", ".push")},
        {("store", "*")},
    ),
    "cart.php": (
        "php",
        {
            "constant LIMIT", "class Cart", "constant Cart.MAX", "method Cart.__construct",
            "method Cart.add", "method Cart.open", "interface Priced", "method Priced.price",
            "trait Logs", "method Logs.log", "enum Level", "member Level.Low",
            "member Level.High", "function total",
        },
        {("Cart.add", "round_up"), ("Cart.open", "load"), ("total", "array_sum")},
        {("Shop.Money", "Price"), ("Shop", "round_up")},
    ),
    "Client.kt": (
        "kotlin",
        {
            "constant MAX_TRIES", "type Handler", "class Client", "method Client.send",
            "method Client.close", "field Client.isOpen", "method Client.open",
            "interface Writer", "method Writer.write", "enum Level", "object Registry",
            "method Registry.find", "function second", "function main",
        },
        {("Client.send", "connect"), ("main", "Client.open")},
        {("shop.core", "Item"), ("kotlinx.coroutines", "*")},
    ),
    "Player.swift": (
        "swift",
        {
            "variable maxVolume", "type Callback", "class Player", "field Player.current",
            "field Player.shared", "method Player.init", "method Player.play", "struct Track",
            "field Track.title", "method Track.seconds", "protocol Playable",
            "field Playable.current", "method Playable.play", "enum Mode", "member Mode.once",
            "impl Player", "method Player.pause", "function makePlayer",
        },
        {("Player.play", "load"), ("Player.pause", "stop"), ("makePlayer", "Player")},
        {("Foundation", "")},
    ),
    "Service.scala": (
        "scala",
        {
            "trait Service", "field Service.name", "method Service.handle", "class Order",
            "object Service", "field Service.MaxTries", "type Service.Handler",
            "method Service.apply", "class Default", "method Default.handle",
            "function Default.handle.again", "enum Level",
        },
        {("Default.handle", "process"), ("Service.apply", "Default")},
        {("shop.core", "Item"), ("shop.core", "Price"), ("scala.concurrent", "_")},
    ),
    "deploy.sh": (
        "shell",
        {
            "variable TARGET", "variable RELEASE", "function copy_files", "function restart",
            "function main",
        },
        {("copy_files", "log_done"), ("main", "copy_files"), ("main", "restart")},
        {("lib/log.sh", "*")},
    ),
}  # fmt: skip


def facts(name: str) -> CodeFacts:
    return facts_of(parse(FileInput(name, (SAMPLES / f"{name}.sample").read_bytes())))


@pytest.mark.parametrize("name", EXPECTED)
def test_symbols_uses_and_imports(name: str) -> None:
    language, symbols, uses, imports = EXPECTED[name]
    assert is_parsed(language), "the extra `languages` is not installed"
    found = facts(name)
    assert found.language == language
    assert {f"{one.kind} {one.symbol}" for one in found.symbols} == symbols
    text = (SAMPLES / f"{name}.sample").read_bytes()
    unpacked = unpack_uses(uses_in(language, text, found.symbols))
    used = {
        (found.symbols[one.owner].symbol if one.owner >= 0 else "", one.chain)
        for one in unpacked.references
    }
    assert uses <= used
    assert imports <= {(one.module, one.name) for one in unpacked.imports}


@pytest.mark.parametrize("name", EXPECTED)
def test_outlines_have_first_sentences_and_no_bodies(name: str) -> None:
    source = (SAMPLES / f"{name}.sample").read_bytes()
    text = make_generator("outline").generate(FileInput(name, source))
    assert text.startswith(f"[{EXPECTED[name][0]}]")
    assert "partial" not in text
    assert "return" not in text
    documented = [line for line in text.split("\n") if " -- " in line]
    assert documented
    assert all(line.endswith(".") for line in documented)


def test_a_language_without_its_grammar_is_shown_by_its_head(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("indexer.generators.parsed.is_parsed", lambda language: False)
    source = (SAMPLES / "queue.rb.sample").read_bytes()
    text = make_generator("outline").generate(FileInput("queue.rb", source))
    assert text.startswith("[ruby] A queue of jobs")
    assert "| module Jobs" in text


def test_every_grammar_has_its_words() -> None:
    from indexer.generators.references import WORDS

    assert set(GRAMMARS) == set(WORDS)
