"""Recognising secrets in text: strictly, to refuse them, and eagerly, to black them out."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Finding:
    """Where in a text a secret stands and what kind it is; never the secret itself."""

    kind: str
    start: int
    end: int
    line: int


_Span = tuple[int, int, str]


def find_secrets(text: str) -> list[Finding]:
    """The secrets in a text that are beyond reasonable doubt, in order of place."""
    findings: list[Finding] = []
    line, counted, done = 1, 0, 0
    for start, end, kind in sorted(_strict_spans(text)):
        if start < done:
            continue
        line += text.count("\n", counted, start)
        counted, done = start, end
        findings.append(Finding(kind, start, end, line))
    return findings


def redact(text: str) -> str:
    """The text with everything that may be a secret replaced by `[redacted:KIND]`."""
    pieces: list[str] = []
    done = 0
    for start, end, kind in sorted(_eager_spans(text)):
        if start >= done and not _MARKERS.fullmatch(text, start, end):
            pieces += [text[done:start], f"[redacted:{kind}]"]
        elif start >= done:
            continue
        # A span that overlaps the one before it only widens what that marker stands for.
        done = max(done, end)
    return "".join([*pieces, text[done:]])


def is_secret_name(name: str) -> bool:
    """Whether a key, header or variable of this name usually holds a secret."""
    name = _lower(name)
    return _SECRET_NAME.search(name) is not None or _HEADER_NAME.fullmatch(name) is not None


def _lower(text: str) -> str:
    """The text in lower case with every character in its place; `re` ignores case slowly."""
    return text.replace("\u0130", "i").lower()


def _strict_spans(text: str) -> Iterator[_Span]:
    for rule in _ISSUED:
        for match in rule.matches(text):
            if rule.strict(match[0]):
                yield match.start(), match.end(), rule.kind
    yield from _private_keys(text, strict=True)
    lower = _lower(text)
    for kind, pattern in (("bearer", _BEARER), ("url_password", _URL_PASSWORD)):
        for match in pattern.finditer(lower):
            start, end = match.span("value")
            if _looks_drawn(text[start:end]):
                yield start, end, kind
    for name in _SECRET_NAME.finditer(lower):
        value = _STRICT_VALUE.match(text, name.end())
        if value and _looks_drawn(value["value"]):
            before = _NAME_BEFORE.search(lower, max(0, name.start() - 40), name.start())
            whole = (before[0] if before else "") + lower[name.start() : value.start("value")]
            if not _NO_SECRET.search(whole):
                yield *value.span("value"), "assignment"


def _eager_spans(text: str) -> Iterator[_Span]:
    for rule in _ISSUED:
        for match in rule.matches(text):
            yield match.start(), match.end(), rule.kind
    yield from _private_keys(text, strict=False)
    lower = _lower(text)
    for kind, pattern in _EAGER.items():
        for match in pattern.finditer(lower):
            yield *match.span("value"), kind
    name = _SECRET_NAME.search(lower)
    while name:
        going_on = name.end()
        if value := _EAGER_VALUE.match(lower, name.end()):
            yield *value.span(value.lastgroup or 0), "assignment"
            # Names inside a value are gone with it; trying them again would be quadratic.
            going_on = value.end()
        elif (value := _SPOKEN_VALUE.match(lower, name.end())) and _mixed(value["value"]):
            yield *value.span("value"), "assignment"
        name = _SECRET_NAME.search(lower, going_on)


def _private_keys(text: str, *, strict: bool) -> Iterator[_Span]:
    """PEM private keys; strictly only with a body, because code names the header alone."""
    for begin in _PEM_BEGIN.finditer(text):
        dashes = text.find("-----END ", begin.end(), begin.end() + 20_000)
        close = _PEM_END.match(text, dashes) if dashes >= 0 else None
        limit = begin.end() + 400
        body = _PEM_BODY.search(text, begin.end(), min(limit, close.start()) if close else limit)
        if strict and (not body or _STAND_IN.search(body[0])):
            continue
        rest = _PEM_REST.match(text, body.start() if body else begin.end())
        end = close or rest or begin
        yield begin.start(), end.end(), "private_key"


def _mixed(value: str) -> bool:
    """Whether letters and digits both occur."""
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _varied(value: str) -> bool:
    """Whether a value in a known format is a real one and no stand-in from a manual."""
    return len(set(value)) >= 10 and not _STAND_IN.search(value)


def _looks_drawn(value: str) -> bool:
    """Whether a value was drawn by a machine rather than written by a person."""
    if len(value) < 20 or _STAND_IN.search(value) or _UUID.fullmatch(value):
        return False
    # Letters and digits alternate in what was drawn; identifiers are words with a number.
    changes = len(_LETTER_TO_DIGIT.findall(value))
    if changes < max(3, len(value) / 10):
        return False
    words = sum(map(len, _WORD.findall(value)))
    shares = [count / len(value) for count in Counter(value).values()]
    return words <= 0.7 * len(value) and -sum(p * math.log2(p) for p in shares) >= 3.0


_MARKERS: Final = re.compile(r"(?:\[redacted:[a-z_0-9]+\])+")
_LETTER_TO_DIGIT: Final = re.compile(r"(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])")
_WORD: Final = re.compile(r"[A-Z]?[a-z]{4,}|[A-Z]{5,}")
_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_STAND_IN: Final = re.compile(
    r"(?i)example|placeholder|change_?me|dummy|sample|redacted|your[_-]|xxxx|"
    r"00000|12345|abcdef|[<>{}$*%]|\.\.\."
)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A token format that names its issuer."""

    kind: str
    # Prefixes that are looked for first: most texts hold none, and that is quick to see.
    prefixes: tuple[str, ...]
    body: str
    strict: Callable[[str], bool] = _varied

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        for prefix in self.prefixes:
            if prefix in text:
                # `re` keeps compiled patterns, and only those that are ever needed.
                yield from re.finditer(
                    rf"(?<![A-Za-z0-9_-]){re.escape(prefix)}(?:{self.body})(?![A-Za-z0-9])", text
                )


_ISSUED: Final = (
    _Rule("anthropic_key", ("sk-ant-",), r"[A-Za-z0-9_-]{20,200}"),
    # `sk-` also begins CSS classes, so that here the rest has to look drawn.
    _Rule("api_key", ("sk-",), r"(?!ant-)[A-Za-z0-9_-]{20,250}", _looks_drawn),
    _Rule("github_token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"[A-Za-z0-9]{36,255}"),
    _Rule("github_token", ("github_pat_",), r"[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    _Rule("gitlab_token", ("glpat-", "glptt-", "glrt-"), r"[A-Za-z0-9_.-]{20,60}"),
    _Rule("aws_access_key_id", ("AKIA", "ASIA"), r"[A-Z2-7]{16}"),
    _Rule("google_api_key", ("AIza",), r"[A-Za-z0-9_-]{35}"),
    _Rule(
        "slack_token",
        ("xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-"),
        r"[A-Za-z0-9-]{20,250}",
        _looks_drawn,
    ),
    _Rule("slack_webhook", ("https://hooks.slack.com/services/",), r"T\w+/B\w+/\w{20,30}"),
    _Rule("stripe_key", ("sk_live_", "rk_live_", "sk_test_", "rk_test_"), r"[A-Za-z0-9]{16,250}"),
    _Rule("npm_token", ("npm_",), r"[A-Za-z0-9]{36}"),
    _Rule("pypi_token", ("pypi-AgE",), r"[A-Za-z0-9_-]{50,500}"),
    _Rule("huggingface_token", ("hf_",), r"[A-Za-z0-9]{34,40}"),
    _Rule("sendgrid_key", ("SG.",), r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    _Rule("digitalocean_token", ("dop_v1_", "doo_v1_", "dor_v1_"), r"[a-f0-9]{64}"),
    _Rule(
        "jwt", ("eyJ",), r"[A-Za-z0-9_-]{8,4000}\.eyJ[A-Za-z0-9_-]{4,8000}\.[A-Za-z0-9_-]{16,2000}"
    ),
)

_PEM_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BODY: Final = re.compile(r"[A-Za-z0-9+/]{40}")
_PEM_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
# What is left of a key that was cut off: its lines, in a file or in a string literal.
_PEM_REST: Final = re.compile(r"[A-Za-z0-9+/=\s\\]*")

# From here on the patterns read text in lower case, except the one for strict values.
_BEARER: Final = re.compile(r"""\bbearer\s+(?P<value>[^\s"'`<>,;]{4,})""")
_URL_PASSWORD: Final = re.compile(r"""://[^\s/:@"']{0,100}:(?P<value>[^\s/@"']{1,300})@""")
# Names are recognised by the word in them; what makes it another word is excluded there. The
# look-ahead only saves time.
_SECRET_NAME: Final = re.compile(
    r"(?=[acepst])(?:secret|passw(?:or)?d|passphrase|(?<![a-z])(?:pwd|pass)(?![a-z])"
    r"|(?:api|access|private|signing|encryption|account|auth)[_-]?key"
    r"|(?<![a-z])auth(?:entication)?(?![a-z])|credential"
    r"|session[_-]?id|connection[_-]?string"
    r"|token(?!s\b|s_|iz|_?(?:count|limit|type|budget|name|kind)))"
)
_HEADER_NAME: Final = re.compile(
    r"(?:proxy-)?authorization|(?:set-)?cookie|x-[a-z-]{0,30}(?:token|key|secret|signature)"
)
_NAME_BEFORE: Final = re.compile(r"[a-z0-9_.:-]*\Z")
_NO_SECRET: Final = re.compile(
    r"hash|sha\d|md5|digest|checksum|fingerprint|public|url|uri|path|file|regex|pattern|::"
    r"|next|page|continuation|cursor|change|verification|session"
)
_ASSIGNED: Final = r"""[A-Za-z0-9_-]{0,30}["'`]?\]?[ \t]{0,8}(?::=|=>|==?|:)[ \t]{0,8}"""
_STRICT_VALUE: Final = re.compile(
    rf"{_ASSIGNED}"
    r"""(?P<quote>["'`]?)(?P<value>[A-Za-z0-9+/=_~!@#^&-]{16,300})(?P=quote)(?=[\s,;)}\]]|\Z)"""
)
_EAGER_VALUE: Final = re.compile(
    rf"{_ASSIGNED}(?:[rbfu]{{0,2}}"
    r"""(?:"(?P<double>[^"\\\n]*(?:\\.[^"\\\n]*)*)|'(?P<single>[^'\\\n]*(?:\\.[^'\\\n]*)*)|`(?P<back>[^`\n]+))"""
    r"""|(?P<bare>[^\s,;&"'`]+))"""
)
# `--token VALUE`, `password is VALUE`, `API key VALUE`.
_SPOKEN_VALUE: Final = re.compile(
    r"""[a-z_-]{0,20}\s{1,4}(?:(?:is|was|of)\s{1,4})?["'`]?(?P<value>[^\s"'`,;]{6,})"""
)
_EAGER: Final = {
    "header": re.compile(
        rf"(?=[acpsx])(?<![a-z0-9-])(?:{_HEADER_NAME.pattern})"
        r"""["'`]?[ \t]*[:=][ \t]*["'`]?(?P<value>[^\r\n"'`]+)"""
    ),
    "bearer": _BEARER,
    "url_password": _URL_PASSWORD,
    "flag": re.compile(
        r"""(?<!\S)--?[a-z-]{0,30}(?:password|token|secret|key)[ =]["']?(?P<value>[^\s"']+)"""
    ),
    "query": re.compile(r"""[?&](?:sig|signature|key|code|access)=(?P<value>[^&\s"'#]+)"""),
}
