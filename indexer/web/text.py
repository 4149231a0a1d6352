"""Text from files and frames as it may stand in a page: escaped, and nothing in it hidden."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Final
from urllib.parse import quote

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from indexer.core.paths import on_screen

LONGEST: Final = 200_000
"""Characters of a frame that one page shows."""
LONGEST_LINE: Final = 2000
LONGEST_MARKDOWN: Final = 20_000
"""Beyond this a frame is shown as it was written: laying it out could take long."""


def plain(text: object) -> str:
    """One line for an attribute or a title, where markup has no place; the template escapes it."""
    return on_screen(str(text))


def visible(text: object) -> Markup:
    """One line among a page's text; what cannot be seen or turns the reading order stands out."""
    line = str(text)
    if line.isascii() and line.isprintable():
        return escape(line)
    return Markup("").join(
        Markup('<span class="odd">{}</span>').format("".join(map(on_screen, run)))
        if odd
        else escape("".join(run))
        for odd, run in groupby(line, key=lambda char: on_screen(char) != char)
    )


def marked(text: str, words: Sequence[str]) -> Markup:
    """One line with the words that were asked for set apart."""
    wanted = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True) if word)
    if not wanted:
        return visible(text)
    # A match never splits what `visible` spells out: both work on single characters.
    pieces = re.split(f"({wanted})", text, flags=re.IGNORECASE)
    return Markup("").join(
        Markup("<mark>{}</mark>").format(visible(piece)) if number % 2 else visible(piece)
        for number, piece in enumerate(pieces)
    )


def commands(text: str) -> Markup:
    """A hint of ours, with the commands that it puts between backticks set apart."""
    return Markup("").join(
        Markup("<code>{}</code>").format(visible(part)) if number % 2 else visible(part)
        for number, part in enumerate(text.split("`"))
    )


def path_text(path: str) -> Markup:
    """A path that keeps its reading order to itself and can break after a slash."""
    if not path:
        return Markup('<bdi class="path root">workspace</bdi>')
    parts = Markup("/<wbr>").join(visible(part) for part in path.split("/"))
    return Markup('<bdi class="path">{}</bdi>').format(parts)


def block(text: str) -> Markup:
    """Several lines as they were written."""
    shown, cut = text[:LONGEST], len(text) > LONGEST
    lines = Markup("\n").join(visible(line.removesuffix("\r")) for line in shown.split("\n"))
    body = Markup('<pre class="source">{}</pre>').format(lines)
    if cut:
        note = f"The first {LONGEST:,} of {len(text):,} characters."
        body += Markup('<p class="remark">{}</p>').format(note)
    return body


def lines(text: str) -> list[str]:
    """The lines of a file, as they are numbered; very long ones are cut and say so."""
    shown = (line.removesuffix("\r") for line in text.removesuffix("\n").split("\n"))
    return [one if len(one) <= LONGEST_LINE else one[:LONGEST_LINE] + " …" for one in shown]


def markdown(text: str) -> Markup:
    """A note laid out: no HTML of its own, no images, links only where they can do no harm."""
    if len(text) > LONGEST_MARKDOWN:
        return block(text)
    source = "\n".join(on_screen(line.removesuffix("\r")) for line in text.split("\n"))
    # The renderer escapes all text; HTML in it counts as text.
    return Markup('<div class="prose">{}</div>').format(Markup(_MARKDOWN.render(source)))


def query(value: object) -> str:
    """A value for the query of an address."""
    return quote(str(value), safe="/")


def _link_open(
    self: RendererHTML, tokens: list[Token], index: int, options: object, env: object
) -> str:
    target = str(tokens[index].attrGet("href") or "")
    if target.lower().startswith(("http://", "https://")):
        return str(
            Markup('<a href="{0}" title="{0}" rel="noreferrer noopener nofollow">').format(target)
        )
    return str(Markup('<a class="inert" title="{}">').format(target))


def _code(self: RendererHTML, tokens: list[Token], index: int, options: object, env: object) -> str:
    return str(Markup("<pre><code>{}</code></pre>\n").format(tokens[index].content))


def _markdown() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False}).enable("table")
    # Entities could spell what `on_screen` has made visible; images would be fetched.
    made.disable(["entity", "image", "html_inline", "html_block"])
    made.add_render_rule("link_open", _link_open)
    made.add_render_rule("fence", _code)
    made.add_render_rule("code_block", _code)
    return made


_MARKDOWN: Final = _markdown()


def number(value: int) -> str:
    """A count with its thousands apart."""
    return f"{value:,}"


def size(count: int) -> str:
    """A number of bytes for people."""
    if count < 1024:
        return f"{count} B"
    amount = count / 1024
    for unit in ("KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def plural(count: int, word: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count:,} {word if count == 1 else word + 's'}"
