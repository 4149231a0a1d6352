"""Documents by their headings, in Markdown and reStructuredText."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from indexer.core.patterns import pattern
from indexer.generators.lines import cut, head, shown, squeezed

READ = 512 * 1024
MAX_LINE = 1000
MAX_LEAD = 400

_ATX = pattern(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = pattern(r" {0,3}(=+|-+)[ \t]*$")
_FENCE = pattern(r" {0,3}(`{3,}|~{3,})")
_NOT_PROSE = pattern(
    r"\s*(?:[-*+>|]|\d+[.)]\s|<|\[!\[|!\[|\{%|:::|={3,}|-{3,}|\[[^\]]+\]:|import )"
)
_IMAGE = pattern(r"!\[[^\]\[]*\]\([^()]*\)")
_LINK = pattern(r"\[([^\]\[]*)\](?:\([^()]*\)|\[[^\]\[]*\])")
_FRONT_TITLE = pattern(r"title\s*[:=]\s*(.+)")
_MARKS = frozenset("=-`:'\"~^_*+#<>.")
_ADORNMENT = pattern(r"([=\-`:'\"~^_*+#<>.])\1{2,}\s*$")
_DIRECTIVE = pattern(r"\.\. |:[\w-]+:")


class Heading(NamedTuple):
    """One heading; its section ends where the next one begins that is not below it."""

    level: int
    text: str
    line: int


@dataclass(slots=True, eq=False, repr=False)
class Document:
    """What a document says of itself, and its headings."""

    lines: int
    title: str = ""
    lead: list[str] = field(default_factory=list)
    lead_done: bool = False
    headings: list[Heading] = field(default_factory=list)
    titled_by: Heading | None = None
    """The heading that is its title."""

    def heading(self, level: int, text: str, line: int) -> None:
        """Take in a heading."""
        said = _plain(text)
        self.end_paragraph()
        if not said:
            return
        found = Heading(level, said, line)
        if not self.title and not self.headings and not self.lead:
            self.title, self.titled_by = said, found
        else:
            self.headings.append(found)

    def prose(self, line: str) -> None:
        """Take in a line of the first paragraph."""
        if not self.lead_done:
            said = _plain(line)
            if said:
                self.lead.append(said)

    def end_paragraph(self) -> None:
        """Note that what follows belongs to another paragraph."""
        if self.lead:
            self.lead_done = True


def read_document(language: str, content: bytes) -> Document | None:
    """A document by its headings; None where the language is none of documents."""
    reader = _READERS.get(language)
    return reader(content) if reader is not None and content.strip() else None


def _read_markdown(content: bytes) -> Document:
    lines = _lines(content)
    document = Document(len(lines))
    at = _front_matter(lines, document)
    fence = ""
    while at < len(lines):
        line = lines[at]
        at += 1
        opened = _FENCE.match(line)
        if fence:
            if opened and opened[1].startswith(fence) and not line.strip(" \t`~"):
                fence = ""
            continue
        if opened:
            fence = opened[1]
            document.end_paragraph()
            continue
        atx = _ATX.match(line)
        if atx:
            document.heading(len(atx[1]), atx[2] or "", at)
        elif line.startswith("<!--"):
            while "-->" not in line and at < len(lines):
                line = lines[at]
                at += 1
        elif not line.strip() or line.startswith(("    ", "\t")):
            document.end_paragraph()
        elif at < len(lines) and _UNDERLINE.match(lines[at]) and not _NOT_PROSE.match(line):
            document.heading(1 if "=" in lines[at] else 2, line, at)
            at += 1
        elif _NOT_PROSE.match(line):
            document.end_paragraph()
        else:
            document.prose(line)
    return document


def _read_rst(content: bytes) -> Document:
    """A reStructuredText document; levels by first use of an adornment."""
    lines = _lines(content)
    document = Document(len(lines))
    levels: list[tuple[str, bool]] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        below = lines[at] if at < len(lines) else ""
        adorned = _adornment(below)
        if line.strip() and adorned and len(below.rstrip()) >= len(line.rstrip()):
            if not _adornment(line):
                # With a line above, too, it is another level.
                mark = (adorned[1], at > 1 and lines[at - 2].rstrip() == below.rstrip())
                if mark not in levels:
                    levels.append(mark)
                document.heading(levels.index(mark) + 1, line, at)
                at += 1
        elif not line.strip() or line[0] in " \t" or _DIRECTIVE.match(line):
            document.end_paragraph()
        elif not _adornment(line):
            document.prose(line)
    return document


def _adornment(line: str) -> re.Match[str] | None:
    # Most lines begin with a letter, and that is quicker to see.
    return _ADORNMENT.match(line) if line[:1] in _MARKS else None


_READERS = {"markdown": _read_markdown, "rst": _read_rst}


def _lines(content: bytes) -> list[str]:
    return [line[:MAX_LINE] for line in shown(head(content, READ)).split("\n")]


def _front_matter(lines: list[str], document: Document) -> int:
    if lines[0].rstrip() not in ("---", "+++"):
        return 0
    for at, line in enumerate(lines[1:100], 1):
        if line.rstrip() == lines[0].rstrip():
            return at + 1
        found = _FRONT_TITLE.match(line)
        if found and not document.title:
            document.title = _plain(found[1].strip("\"' "))
    # It never closes: a rule at the top of the page, not front matter.
    document.title = ""
    return 1


def _plain(text: str) -> str:
    if "[" in text:
        text = _LINK.sub(r"\1", _IMAGE.sub("", text))
    return squeezed(text)


def document_outline(label: str, document: Document, *, width: int, limit: int) -> str:
    """Title, first paragraph, then the headings nested by level."""
    out = [cut(f"[{label}] {document.title}".rstrip(), width)]
    if document.lead:
        out.append(cut("> " + " ".join(document.lead), MAX_LEAD))
    top = min((heading.level for heading in document.headings), default=1)
    for level, said, _ in document.headings[:limit]:
        out.append(cut("  " * (level - top) + "- " + said, width))
    if len(document.headings) > limit:
        out.append(f"… {len(document.headings) - limit} more headings")
    return "\n".join(out) + "\n"
