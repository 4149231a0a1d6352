"""Recognising secrets in text: what is one in all likelihood, and eagerly what may be one.

The first, `find_secrets`, is for texts that are kept: notes and sessions that hold a finding are
refused, and in what generators make it is masked. The second, `redact`, is for what is sent to a
model or said in an error, where one word too few does less harm than one too many.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from indexer.core.patterns import pattern
from indexer.errors import UsageError

VERSION: Final = "1"
"""Moves with every change to what `mask` does: fingerprints of what is masked have it."""


class Finding(NamedTuple):
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
    for start, end, kind in sorted(_likely_spans(text)):
        if start < done:
            continue
        line += text.count("\n", counted, start)
        counted, done = start, end
        findings.append(Finding(kind, start, end, line))
    return findings


def kind_of_secret(*values: object) -> str | None:
    """What kind of secret some text holds in these values, however nested; None: there is none."""
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if found := find_secrets(value):
                return found[0].kind
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                # A password says nothing by itself; with its name it does.
                waiting += [f'{key}="{inner}"' if isinstance(inner, str) else key, inner]
        elif isinstance(value, list | tuple):
            waiting += value
    return None


def check_secrets(refusal: type[UsageError], what: str, *values: object) -> None:
    """Refuse values that hold a secret, saying where and of which kind."""
    kind = kind_of_secret(*values)
    if kind is not None:
        raise refusal(
            f"the {what} looks like it holds a secret ({kind})",
            hint="take it out, or pass --allow-secrets if it is none",
        )


def mask(text: str) -> str:
    """The text with every secret that `find_secrets` sees replaced by `[redacted:KIND]`."""
    return _replaced(text, _likely_spans(text))


def redact(text: str) -> str:
    """The text with everything that may be a secret replaced by `[redacted:KIND]`."""
    return _replaced(text, _eager_spans(text))


def _replaced(text: str, spans: Iterable[_Span]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end, kind in sorted(spans):
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


def _likely_spans(text: str) -> Iterator[_Span]:
    yield from _issued(text, likely=True)
    yield from _private_keys(text, likely=True)
    yield from _likely_values(text, _lower(text))


def _likely_values(text: str, lower: str) -> Iterator[_Span]:
    """Secrets that are known by where they stand."""
    if "://" in lower:
        for match in _URL_PASSWORD.finditer(lower):
            if _is_in_use(text, match):
                yield *match.span("value"), "url_password"
    if "bearer" in lower:
        for match in _BEARER.finditer(lower):
            start, end = match.span("value")
            if _looks_drawn(text[start:end]):
                yield start, end, "bearer"
    for name in _secret_names(lower):
        value = _LIKELY_VALUE.match(text, name.end())
        if value and _is_given(text, lower, name, value):
            yield *value.span("quoted" if value["quoted"] else "bare"), "assignment"


def _secret_names(lower: str) -> Iterator[re.Match[str]]:
    """What `_SECRET_NAME` finds in a text, looked for only where a word of it stands."""
    starts = {place for word in _NAME_WORDS if word in lower for place in _places(word, lower)}
    for place in _places("key", lower):
        if before := _BEFORE_KEY.search(lower, max(0, place - _LONGEST_BEFORE_KEY), place):
            starts.add(before.start())
    done = 0
    for start in sorted(starts):
        if start >= done and (name := _SECRET_NAME.match(lower, start)):
            yield name
            done = name.end()


def _places(word: str, text: str) -> Iterator[int]:
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + len(word))


def _is_in_use(text: str, match: re.Match[str]) -> bool:
    """Whether the password in an address opens something, and is no stand-in from a manual."""
    start, end = match.span("value")
    user, value = text[slice(*match.span("user"))], text[start:end]
    if value == user or _is_stand_in(value) or (match["end"] == "…" and value.isdigit()):
        return False
    if _STORE.search(match.string, max(0, match.start() - 30), match.start()):
        return len(value) >= 3
    return len(value) >= 6 and _mixed(value)


def _is_given(text: str, lower: str, name: re.Match[str], match: re.Match[str]) -> bool:
    """Whether a name is given a secret: no type, no other name, no reference, no stand-in."""
    before = _NAME_BEFORE.search(lower, max(0, name.start() - 40), name.start())
    begin = before.start() if before else name.start()
    whole = text[begin : name.end()] + match["rest"]
    value = match["quoted"] or match["bare"]
    if _NO_SECRET.search(_lower(whole)) or not _is_value(match, text[max(0, begin - 3) : begin]):
        return False
    if _DRAWN.fullmatch(value) and (_looks_drawn(value) or _is_cloud_secret(whole, value)):
        return True
    if len(value) > _LONGEST_CHOSEN or match["sign"] == "==":
        return False
    if _is_stand_in(value) or _REFERENCE.match(value):
        return False
    if match["end"] in _CODE_ENDS and not whole.isupper():
        return False
    is_cut = match["cut"] or match["end"] == "…"
    if is_cut and len(value) >= 8 and _mixed(value):
        # The rest was cut off, and with it what would make it look drawn.
        return True
    is_spaced = bool(match["gap"] or match["after"])
    is_password = _PASSWORD_NAME.search(_lower(whole)) is not None
    if whole.isupper() and match["sign"] == "=" and not is_spaced:
        # An environment: what stands there is a value, and no code.
        is_key = not match["rest"] and not name[0].startswith("auth")
        return is_password or (is_key and len(value) >= 8 and _mixed(value))
    if not is_password or len(value) < 6 or _TERM.fullmatch(value):
        return False
    if match["quoted"] or (whole.isupper() and match["sign"] == ":"):
        return _mixed(value) or _SIGNS.search(value) is not None
    return _mixed(value) and not (match["sign"] == "=" and is_spaced)


def _is_cloud_secret(name: str, value: str) -> bool:
    """Whether a value has the one form of a cloud's secret access key, under its name."""
    return len(value) == 40 and _CLOUD_SECRET.search(_lower(name)) is not None


def _is_value(match: re.Match[str], before: str) -> bool:
    """Whether what follows a name can be its value: a literal, or words that nothing calls."""
    if match["sign"] == ",":
        # `define('DB_PASSWORD', 'VALUE')`; elsewhere a comma stands in a list.
        return bool(match["named"] and match["quoted"] and _CALL.fullmatch(before))
    if match["sign"] == ">":
        return match["end"] == "<" and not (match["gap"] or match["after"])
    if match["bare"]:
        return match["end"] not in tuple("([{") and not _DOTTED.fullmatch(match["bare"])
    return True


def _is_stand_in(value: str) -> bool:
    return _TEMPLATE.search(value) is not None or _ORDINARY.fullmatch(value) is not None


def _issued(text: str, *, likely: bool) -> Iterator[_Span]:
    """Tokens in the format of one issuer."""
    # Most texts hold no prefix at all, and that is quick to see.
    for prefix, rule in [one for one in _PREFIXES if one[0] in text]:
        for match in rule.matches(prefix, text):
            is_cut = text[match.end() : match.end() + 1] == "…"
            if not likely or (_is_begun if is_cut else rule.is_real)(match[0]):
                yield match.start(), match.end(), rule.kind


def _eager_spans(text: str) -> Iterator[_Span]:
    yield from _issued(text, likely=False)
    yield from _private_keys(text, likely=False)
    lower = _lower(text)
    yield from _likely_values(text, lower)
    for kind, eager in _EAGER.items():
        for match in eager.finditer(lower):
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


def _private_keys(text: str, *, likely: bool) -> Iterator[_Span]:
    """PEM private keys; likely ones have a body, because code names the header alone."""
    for begin in _PEM_BEGIN.finditer(text):
        dashes = text.find("-----END ", begin.end(), begin.end() + 20_000)
        close = _PEM_END.match(text, dashes) if dashes >= 0 else None
        limit = begin.end() + 400
        body = _PEM_BODY.search(text, begin.end(), min(limit, close.start()) if close else limit)
        if likely and (not body or _STAND_IN.search(body[0])):
            continue
        rest = _PEM_REST.match(text, body.start() if body else begin.end())
        end = close or rest or begin
        yield begin.start(), end.end(), "private_key"


def _mixed(value: str) -> bool:
    """Whether letters and digits both occur."""
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _varied(value: str) -> bool:
    """Whether a value in the format of an issuer is more than the format filled up.

    The sample keys of manuals count as real: no machine can tell, and nothing is lost with them.
    """
    return len(set(value)) >= 8 and not _FILLED.search(value)


def _is_begun(value: str) -> bool:
    """Whether a token that was cut off is one; a mere name would be words between dashes."""
    return not _FILLED.search(value) and (_mixed(value) or len(_LAST_PART.findall(value)[0]) >= 8)


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


def _drawn_or_long(value: str) -> bool:
    """Whether what begins with `sk-` is a key; CSS classes that do have dashes and few digits."""
    return _looks_drawn(value) or (
        len(value) >= 35 and "-" not in value[3:] and _mixed(value) and _varied(value)
    )


_LONGEST_CHOSEN: Final = 64
"""Characters of a password that a person would choose; longer ones look drawn."""

_MARKERS: Final = pattern(r"(?:\[redacted:[a-z_0-9]+\])+")
_LETTER_TO_DIGIT: Final = pattern(r"(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])")
_WORD: Final = pattern(r"[A-Z]?[a-z]{4,}|[A-Z]{5,}")
_UUID: Final = pattern(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LAST_PART: Final = pattern(r"[A-Za-z0-9]*\Z")
_FILLED: Final = pattern(r"(?i)xxxx|your[_-]|placeholder|redacted|\.\.\.")
_STAND_IN: Final = pattern(
    r"(?i)example|placeholder|change_?me|dummy|sample|redacted|your[_-]|xxxx|"
    r"00000|12345|abcdef|[<>{}$*%]|\.\.\."
)
# What a person writes where a password belongs: a way to one, or a word for one.
_TEMPLATE: Final = pattern(
    r"(?i)\A[$%<{@&~./]|\$[({]|\{\{|\{[a-z_.0-9]*\}|%[sd(]|<|://|\*\*\*|\.\.\.|xxxx"
    r"|example|placeholder|change[_-]?me|dummy|sample|redacted|your[_-]|replace|insert"
)
_ORDINARY: Final = pattern(
    r"(?i)(?:my|the|a|some|test|user|db|app|new|old|bad|wrong)?[_-]?"
    r"(?:pass|password|passwd|passphrase|pwd|secret|token|key|credentials?|none|null|nil|true"
    r"|false|yes|no|on|off|string|str|text|undefined|default|empty|unset|required|optional|hidden"
    r"|invalid|prompt|test|testing|foo|bar|baz|root|admin|guest|user|username|postgres|mysql"
    r"|rabbitmq|redis|localhost|[a-z]|[x*.]+)"
)


class _Rule(NamedTuple):
    """A token format that names its issuer."""

    kind: str
    prefixes: tuple[str, ...]
    body: str
    is_real: Callable[[str], bool] = _varied

    def matches(self, prefix: str, text: str) -> Iterator[re.Match[str]]:
        # `re` keeps compiled patterns, and only those that are ever needed. In an outline a line
        # may end inside a token.
        return re.finditer(
            rf"(?<![A-Za-z0-9_-]){re.escape(prefix)}"
            rf"(?:(?:{self.body})(?![A-Za-z0-9])|[A-Za-z0-9_.-]{{6,300}}(?=…))",
            text,
        )


_ISSUED: Final = (
    _Rule("anthropic_key", ("sk-ant-",), r"[A-Za-z0-9_-]{20,200}"),
    _Rule("api_key", ("sk-proj-", "sk-svcacct-", "sk-or-v1-"), r"[A-Za-z0-9_-]{20,250}"),
    _Rule(
        "api_key", ("sk-",), r"(?!ant-|proj-|svcacct-|or-v1-)[A-Za-z0-9_-]{20,250}", _drawn_or_long
    ),
    _Rule("api_key", ("gsk_", "xai-"), r"[A-Za-z0-9]{40,100}"),
    _Rule("github_token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"[A-Za-z0-9]{36,255}"),
    _Rule("github_token", ("github_pat_",), r"[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    _Rule("gitlab_token", ("glpat-", "glptt-", "glrt-"), r"[A-Za-z0-9_.-]{20,60}"),
    _Rule("aws_access_key_id", ("AKIA", "ASIA"), r"[A-Z0-9]{16}"),
    _Rule("google_api_key", ("AIza",), r"[A-Za-z0-9_-]{35}"),
    _Rule("google_secret", ("GOCSPX-",), r"[A-Za-z0-9_-]{28}"),
    _Rule("google_token", ("ya29.",), r"[A-Za-z0-9_-]{20,500}"),
    _Rule(
        "slack_token",
        ("xapp-", "xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-"),
        r"[A-Za-z0-9-]{20,250}",
    ),
    _Rule("slack_webhook", ("https://hooks.slack.com/services/",), r"T\w+/B\w+/\w{20,30}"),
    _Rule("discord_webhook", ("https://discord.com/api/webhooks/",), r"\d{5,30}/[\w-]{40,100}"),
    _Rule("stripe_key", ("sk_live_", "rk_live_", "sk_test_", "rk_test_"), r"[A-Za-z0-9]{16,250}"),
    _Rule("npm_token", ("npm_",), r"[A-Za-z0-9]{36}"),
    _Rule("pypi_token", ("pypi-AgE",), r"[A-Za-z0-9_-]{50,500}"),
    _Rule("docker_token", ("dckr_pat_",), r"[A-Za-z0-9_-]{20,60}"),
    _Rule("vault_token", ("hvs.",), r"[A-Za-z0-9_-]{24,200}"),
    _Rule("huggingface_token", ("hf_",), r"[A-Za-z0-9]{34,40}"),
    _Rule("sendgrid_key", ("SG.",), r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    _Rule("digitalocean_token", ("dop_v1_", "doo_v1_", "dor_v1_"), r"[a-f0-9]{64}"),
    _Rule(
        "jwt", ("eyJ",), r"[A-Za-z0-9_-]{8,4000}\.eyJ[A-Za-z0-9_-]{4,8000}\.[A-Za-z0-9_-]{16,2000}"
    ),
)
_PREFIXES: Final = [(prefix, rule) for rule in _ISSUED for prefix in rule.prefixes]

_PEM_BEGIN: Final = pattern(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BODY: Final = pattern(r"[A-Za-z0-9+/]{40}")
_PEM_END: Final = pattern(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
# What is left of a key that was cut off: its lines, in a file, a string literal or an outline.
_PEM_REST: Final = pattern(r"[A-Za-z0-9+/=\s\\|…]*")

# From here on the patterns read text in lower case, except those for values.
_BEARER: Final = pattern(r"""\bbearer\s+(?P<value>[^\s"'`<>,;]{4,})""")
_URL_PASSWORD: Final = pattern(
    r"""://(?P<user>[^\s/:@"'`]{0,100}):(?P<value>[^\s/@,"'`…]{1,300})(?P<end>[@…])"""
)
_STORE: Final = pattern(
    r"(?:amqps?|clickhouse|cockroachdb|couchdb|db2|ftps?|jdbc:[a-z]+|ldaps?|mariadb|mongodb|mqtts?"
    r"|mssql|mysqlx?|nats|neo4j|oracle|postgis|postgres|postgresql|redis|rediss|redshift|sftp|smtps?"
    r"|snowflake|sqlserver)(?:\+[a-z0-9]+)?\Z"
)
# Names are recognised by the word in them; what makes it another word is excluded there. The
# look-ahead only saves time.
_KEYS: Final = r"(?:api|access|private|signing|encryption|account|auth)[_-]?"
_SECRET_NAME: Final = pattern(
    r"(?=[acepst])(?:secret|passw(?:or)?d|passphrase|(?<![a-z])(?:pwd|pass)(?![a-z])"
    rf"|{_KEYS}key"
    r"|(?<![a-z])auth(?:entication)?(?![a-z])|credential"
    r"|session[_-]?id|connection[_-]?string"
    r"|token(?!s\b|s_|iz|_?(?:count|limit|type|budget|name|kind)))"
)
_HEADER_NAME: Final = pattern(
    r"(?:proxy-)?authorization|(?:set-)?cookie|x-[a-z-]{0,30}(?:token|key|secret|signature)"
)
_NAME_BEFORE: Final = pattern(r"[a-z0-9_.:-]*\Z")
# How each of them begins, except those that end with `key`.
_NAME_WORDS: Final = (
    "secret", "pass", "pwd", "auth", "credential", "session", "connection", "token",
)  # fmt: skip
_BEFORE_KEY: Final = pattern(_KEYS + r"\Z")
_LONGEST_BEFORE_KEY: Final = len("encryption_")
_PASSWORD_NAME: Final = pattern(
    r"(?:passw(?:or)?d|passphrase|pwd|[_.-]pass|secret(?:[_-]?key)?(?:[_-]base)?)\Z"
)
_CLOUD_SECRET: Final = pattern(r"secret[_-]?access[_-]?key\Z")
_NO_SECRET: Final = pattern(
    r"hash|sha\d|md5|digest|checksum|fingerprint|public|url|uri|path|file|regex|pattern|:"
    r"|next|page|continuation|cursor|change|verification|session(?!.?secret)"
)
_ASSIGNED: Final = r"""[A-Za-z0-9_-]{0,30}["'`]?\]?[ \t]{0,8}(?::=|=>|==?|:)[ \t]{0,8}"""
_LIKELY_VALUE: Final = pattern(
    r"""(?P<rest>[A-Za-z0-9_-]{0,30})(?P<named>["'`]?)\]?"""
    r"""(?P<gap>[ \t]{0,8})(?P<sign>:=|=>|==?|:|,|>)(?P<after>[ \t]{0,8})"""
    r"""(?:(?P<quote>["'`])(?P<quoted>[^\s"'`\\…]{4,300})(?:(?P=quote)|(?P<cut>…))"""
    r"""|(?P<bare>[^\s"'`\\,;&(){}\[\]<>…=]{4,300}={0,2})(?P<end>[\s\S]?))"""
)
_DRAWN: Final = pattern(r"[A-Za-z0-9+/=_~!@#^&.-]+")
_CALL: Final = pattern(r"""\w\(["'`]""")
_CODE_ENDS: Final = frozenset(",)}]>")
_DOTTED: Final = pattern(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_SIGNS: Final = pattern(r"[!@#^&+~-]")
# Names of other things, by dots, slashes or capitals; in the second, what only looks mixed.
_REFERENCE: Final = pattern(r"[A-Za-z_][\w-]*(?:[./:][\w-]+)+\Z|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\Z")
_TERM: Final = pattern(
    r"[A-Za-z_-]*(?:8|16|32|64|128|256|384|512)(?:_t)?|(?i:pbkdf2|oauth\d)"
    r"|(?i:(?:[a-z]+[_-])*(?:pass|password|passwd|pwd|secret|token|key|foo|bar|test)[_-]?\d{0,4})"
    r"|[A-Za-z]*[0-9]?(?:[A-Z][a-z]+){2,}"
)
_EAGER_VALUE: Final = pattern(
    rf"{_ASSIGNED}(?:[rbfu]{{0,2}}"
    r"""(?:"(?P<double>[^"\\\n]*(?:\\.[^"\\\n]*)*)|'(?P<single>[^'\\\n]*(?:\\.[^'\\\n]*)*)|`(?P<back>[^`\n]+))"""
    r"""|(?P<bare>[^\s,;&"'`]+))"""
)
# `--token VALUE`, `password is VALUE`, `API key VALUE`.
_SPOKEN_VALUE: Final = pattern(
    r"""[a-z_-]{0,20}\s{1,4}(?:(?:is|was|of)\s{1,4})?["'`]?(?P<value>[^\s"'`,;]{6,})"""
)
_EAGER: Final = {
    "header": pattern(
        rf"(?=[acpsx])(?<![a-z0-9-])(?:{_HEADER_NAME.pattern})"
        r"""["'`]?[ \t]*[:=][ \t]*["'`]?(?P<value>[^\r\n"'`]+)"""
    ),
    "bearer": _BEARER,
    "url_password": pattern(r"""://[^\s/:@"']{0,100}:(?P<value>[^\s/@"']{1,300})@"""),
    "flag": pattern(
        r"""(?<!\S)--?[a-z-]{0,30}(?:password|token|secret|key)[ =]["']?(?P<value>[^\s"']+)"""
    ),
    "query": pattern(r"""[?&](?:sig|signature|key|code|access)=(?P<value>[^&\s"'#]+)"""),
}
