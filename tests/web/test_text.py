"""Text from outside: escaped, visible, and unable to do anything."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.core.paths import on_screen
from indexer.web import text

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202egnp.exe {{ 7*7 }} \"'&"


def test_what_cannot_be_seen_is_spelled_out() -> None:
    shown = str(text.visible("a\u202eb\x1b[1mc"))
    assert shown == ('a<span class="odd">\\u202e</span>b<span class="odd">\\x1b</span>[1mc')
    assert str(text.visible("naïve 文件")) == "naïve 文件"
    assert str(text.visible("<b>&\"'")) == "&lt;b&gt;&amp;&#34;&#39;"


@given(st.text())
def test_no_text_escapes(anything: str) -> None:
    makers = (text.visible, text.commands, text.path_text, text.block)
    for shown in [make(anything) for make in makers]:
        bare = re.sub(r"</?(?:span|bdi|pre|wbr|code)(?: class=\"[a-z ]+\")?>", "", str(shown))
        assert "<" not in bare
        assert all(on_screen(char) == char or char == "\n" for char in bare)


@given(st.text(alphabet="<>[]()!`*_#&;:/\\\"'=javscripthtml{}|-~ \n\u202e\x1b", max_size=200))
def test_no_note_becomes_more_than_prose(anything: str) -> None:
    made = str(text.markdown(anything))
    tags = set(re.findall(r"<\s*/?\s*([a-zA-Z0-9]+)", made))
    assert tags <= {
        "div", "p", "ul", "ol", "li", "a", "em", "strong", "code", "pre", "blockquote", "hr", "br",
        "h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td",
    }  # fmt: skip
    assert not re.search(r"<[^>]*\son\w+\s*=", made)
    assert all(re.match(r"https?://", target) for target in re.findall(r'href="([^"]*)"', made))
    assert "\u202e" not in made
    assert "\x1b" not in made


def test_links_lead_to_the_web_or_nowhere() -> None:
    made = str(
        text.markdown(
            "[a](https://example.org/?q=1) [b](javascript:alert(1)) [c](docs/x.md)"
            " [d](JaVaScRiPt:alert(1)) [e](data:text/html,x) ![f](http://example.org/i.png)"
            " <http://auto.example> [g](//evil.example)"
        )
    )
    assert re.findall(r'href="([^"]*)"', made) == [
        "https://example.org/?q=1", "http://example.org/i.png", "http://auto.example",
    ]  # fmt: skip
    assert 'rel="noreferrer noopener nofollow"' in made
    assert "<img" not in made
    assert 'class="inert" title="docs/x.md"' in made


def test_entities_cannot_spell_what_is_hidden() -> None:
    made = str(text.markdown("x &#x202e; &lt;script&gt; \\&#8238;\n\n```&#x202e;\ny\n```"))
    assert "\u202e" not in made
    assert "&amp;#x202e;" in made
    assert "<script" not in made


@pytest.mark.parametrize(
    "piece", ["[", "*a ", "![[", ">", "`", "- ", "a**b", "<", "](x", "|a", "_", "~", "&"]
)
def test_no_note_keeps_the_page_busy(piece: str) -> None:
    body = piece * (text.LONGEST_MARKDOWN // len(piece))
    started = time.process_time()
    text.markdown(body)
    # Seconds of CPU, not of a busy machine; the slowest takes a fifth of one.
    assert time.process_time() - started < 5


def test_long_frames_are_cut_and_say_so() -> None:
    shown = str(text.block("x" * (text.LONGEST + 1)))
    assert f"The first {text.LONGEST:,} of {text.LONGEST + 1:,} characters." in shown
    assert "<pre" in str(text.markdown("# x\n" * text.LONGEST_MARKDOWN))
