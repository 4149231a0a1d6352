"""Secrets are found where they are certain, and blacked out where they are possible."""

from __future__ import annotations

import hashlib
import itertools
import sysconfig
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.core import secrets
from indexer.core.secrets import (
    VERSION,
    find_secrets,
    is_secret_name,
    kind_of_secret,
    mask,
    redact,
)

# Put together here so that no scanner takes this file for a leak.
RANDOM = "q7Zk2mX9vB4nR8tL3wP6yD1sG5hJ0cFa"
HEX = "9f8e2b7c41d05a6e3f9b8c7d2e1a4b60"
PEM = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
BEGIN, END = "-----BEGIN {}PRIVATE KEY-----", "-----END {}PRIVATE KEY-----"

CERTAIN = {
    "anthropic_key": "sk-" + "ant-api03-" + RANDOM * 2,
    "api_key": "sk-" + RANDOM + "T3BlbkFJ",
    "api_key with a project": "sk-" + "proj-" + RANDOM + "_" + RANDOM,
    "api_key in hex": "sk-" + HEX,
    "github_token": "ghp" + "_" + RANDOM + "AbC4",
    "github_token of a server": "ghs" + "_" + RANDOM + "AbC4",
    "github_token, fine-grained": "github" + "_pat_" + RANDOM[:22] + "_" + RANDOM + RANDOM[:27],
    "gitlab_token": "glpat" + "-" + RANDOM[:20],
    "aws_access_key_id": "AKIA" + "QX7ZK2MB4NR6TL3W",
    "aws_access_key_id with every digit": "ASIA" + "Q01ZK289BNR6TL3W",
    "aws_access_key_id of a manual": "AKIA" + "IOSFODNN7EXAMPLE",
    "api_key that a person made up": "sk-proj-" + "abcdefghijklmnopqrstuvwxyz0123456789",
    "github_token that a person made up": "ghp" + "_abcdefghijklmnopqrstuvwxyz0123456789",
    "slack_token that a person made up": "xoxb" + "-123456789012-1234567890123-AbCdEfGhIjKl",
    "google_secret": "GOCSPX" + "-" + RANDOM[:28],
    "docker_token": "dckr" + "_pat_" + RANDOM[:27],
    "google_api_key": "AIza" + "Sy" + RANDOM + "x",
    "slack_token": "xoxb" + "-263594206564-2343594206574-" + RANDOM[:24],
    "slack_webhook": "https://hooks.slack.com" + "/services/T02AB3CD4/B05EF6GH7/" + RANDOM[:24],
    "stripe_key": "sk_live" + "_" + RANDOM,
    "npm_token": "npm" + "_" + RANDOM + "AbC4",
    "pypi_token": "pypi-" + "AgEIcHlwaS5vcmcC" + RANDOM * 2,
    "huggingface_token": "hf" + "_" + RANDOM + "Xy",
    "sendgrid_key": "SG." + RANDOM[:22] + "." + RANDOM + RANDOM[:11],
    "digitalocean_token": "dop_v1" + "_" + HEX * 2,
    "jwt": "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiJhbGljZSJ9." + RANDOM,
    "private_key": f"{BEGIN.format('RSA ')}\n{PEM}\n{PEM}\n{END.format('RSA ')}",
}
ASSIGNED = [
    f'API_KEY = "{RANDOM}"',
    f"export CLIENT_SECRET={RANDOM}",
    f'{{"access_token": "{RANDOM}"}}',
    f"password: {RANDOM}\n",
    f"apiKey: '{HEX}',",
    f"Authorization: Bearer {RANDOM}",
    f"postgres://app:{RANDOM}@db.internal/app",
]
CHOSEN = [
    "postgres://app:hunter2@db.internal/app",
    "mysql+pymysql://root:toor@10.0.0.7:3306/shop",
    "mongodb://app:correct-horse@a.internal,b.internal/x",
    "https://deploy:hunter2@ci.internal/job",
    "export DB_PASSWORD=hunter2",
    "export DB_PASSWORD=correct-horse-battery",
    'export DB_PASSWORD="Tr0ub4dor&3"',
    "ENV DB_PASS=letmein-now",
    "docker run -e MYSQL_ROOT_PASSWORD=supersecret mysql",
    "(set DB_PASSWORD=hunter2, then go)",
    "Start it with DB_PASSWORD=hunter2.",
    "API_KEY=abc123def456",
    "spring.datasource.password=hunter2",
    "Server=db;User=app;Password=hunter2;",
    "password: hunter2",
    "DB_PASSWORD: correct-horse",
    'password = "hunter2"',
    '"db_password": "hunter2",',
    "PASSWORD = 'correct-horse'",
    "define('DB_PASSWORD', 'hunter2');",
    "<password>hunter2</password>",
    "aws_secret_access_key = " + "wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY",
]


@pytest.mark.parametrize("name", CERTAIN)
@pytest.mark.parametrize("frame", ["{}", "the key {} is here", 'x = "{}"\n', "\n\nK={}\n"])
def test_a_known_format_is_found_where_it_stands(name: str, frame: str) -> None:
    secret = CERTAIN[name]
    text = frame.replace("{}", secret)
    [finding] = find_secrets(text)
    assert finding.kind == name.split()[0].rstrip(",")
    assert text[finding.start : finding.end] == secret
    assert finding.line == 1 + frame.split("{}")[0].count("\n")


def test_a_private_key_in_a_literal_that_breaks_off_is_found() -> None:
    text = f'key = "{BEGIN.format("")}\\n{PEM}\\nMHcCAQ"'
    [finding] = find_secrets(text)
    assert (finding.kind, finding.start, finding.end) == ("private_key", 7, len(text) - 1)


@pytest.mark.parametrize("text", ASSIGNED)
def test_a_drawn_value_under_a_telling_name_is_found(text: str) -> None:
    [finding] = find_secrets(text)
    assert text[finding.start : finding.end] in (RANDOM, HEX)


@pytest.mark.parametrize(
    "text",
    [
        'token = "your-token-goes-here-1a2b3c"',
        'API_KEY = "XXXXXXXXXXXXXXXXXXXXXXXXXXXX"',
        'password = get_password("service-account-7", user)',
        "token = tokenizer.next_token_of_kind(kind_2, limit=3)",
        f'token_sha256 = "{HEX}{HEX}"',
        f'"next_page_token": "{RANDOM}"',
        'SECRET_NAME = "projects/team-4/secrets/database-password"',
        'session_token: "550e8400-e29b-41d4-a716-446655440000"',
        "key = AKIA" + "XXXXXXXXXXXXXXXX",
        ".sk-toggleable__content-arrow-label { color: red }",
        "sk-estimator-doc-link-container-hover",
        f'if "{BEGIN.format("RSA ")}" in text: return parse(text)',
        f"{BEGIN.format('')}\n<your key here>\n{END.format('')}",
        "Bearer authentication is described in RFC 6750",
        "https://user:password@example.com/",
        "postgres://postgres:postgres@localhost/test",
        "postgres://user:password@localhost/db",
        "postgres://app:${DB_PASSWORD}@db/app",
        "http://localhost:8080/a@b",
        "https://foo.com:123,foo:bar@bar.com/path",
        'password = "x"',
        'self.assertEqual(login(password="secret"), 1)',
        'form["password2"] = "password2"',
        "export DB_PASSWORD=$(pass show db)",
        "export DB_PASSWORD=changeme",
        "PASSWORD_FILE=/run/secrets/db",
        "DB_PASSWORD_FILE=/run/secrets/db1",
        "TOKEN_TTL=3600seconds",
        "AUTH=CRAM-MD5",
        "def login(user: str, password: str, token: bytes32) -> None",
        "    password: string;",
        "login(user=name, password=password1)",
        "password = config.database.password1",
        "private_key: ed25519.Ed25519PrivateKey, rest",
        '"secret": "V1SecretProjection",',
        '"passphrase": "string?",',
        "('CLIENT_SECRET', 'oauth2ClientSecret')",
        '"arn:aws:secretsmanager:us-west-2:111122223333:secret:MyTestSecret-a1b2c3"',
        "--password=projects/12/secrets/my-secret/versions/1 ",
        '"password": "accounts.errors.password2"',
        'token = "550e8400-e29b-41d4-a716-446655440000"',
        f'etag = "{HEX}"',
        f"sha256:{HEX}{HEX}",
        "integrity sha512-" + RANDOM * 2 + "==",
        "max_tokens: 128000",
        "commit 9f8e2b7c41d05a6e3f9b8c7d2e1a4b600011aabb",
        "def secret_of_the_universe_42_answers(token, password=None): ...",
        "",
    ],
)
def test_ordinary_text_is_no_secret(text: str) -> None:
    assert find_secrets(text) == []


@pytest.mark.parametrize("text", CHOSEN)
@pytest.mark.parametrize("frame", ["{}", "| {}\n", 'first line\n    {}\nlast "line"\n'])
def test_a_password_that_a_person_chose_is_found_where_it_is_set(text: str, frame: str) -> None:
    [finding] = find_secrets(frame.replace("{}", text))
    assert finding.kind in ("assignment", "url_password")
    clean = mask(frame.replace("{}", text))
    for part in ("hunter2", "correct", "Tr0ub", "letmein", "supersecret", "abc123", "toor", "wJa"):
        assert part not in clean
    assert clean.startswith(frame.split("{}")[0])
    assert clean.endswith(frame.split("{}")[1])


CUT = [
    *(f"| x = {secret[: len(secret) // 2]}…" for name, secret in CERTAIN.items()
      if "webhook" not in name and "private" not in name),
    "| postgres://app:hunter2hun…",
    f"| export TOKEN={RANDOM[:12]}…",
    f'| api_key = "{RANDOM[:12]}…',
]  # fmt: skip


@pytest.mark.parametrize("text", CUT)
def test_the_beginning_of_a_secret_at_the_end_of_a_cut_line_is_found(text: str) -> None:
    assert mask(text).endswith("]…"), text


def test_a_private_key_in_the_head_of_a_file_is_masked_to_its_last_line() -> None:
    lines = "\n".join(f"| {line}" for line in [BEGIN.format("RSA "), *[PEM] * 8])
    assert mask(f"[text] x\n{lines}\n") == "[text] x\n| [redacted:private_key]"


@pytest.mark.parametrize("text", [*CERTAIN.values(), *ASSIGNED, *CHOSEN])
def test_what_is_masked_is_what_is_found(text: str) -> None:
    text = f"before {text}\nafter"
    [finding] = find_secrets(text)
    rest = text[finding.end :]
    assert mask(text) == f"{text[: finding.start]}[redacted:{finding.kind}]{rest}"
    assert mask(mask(text)) == mask(text)
    assert find_secrets(redact(text)) == []


@pytest.mark.parametrize(
    "value",
    [
        CERTAIN["github_token"],
        {"key": CERTAIN["jwt"]},
        {CERTAIN["jwt"]: 1},
        {"password": "hunter2"},
        {"a": [{"b": ["x", {"c": "postgres://app:hunter2@db/x"}]}]},
        ("x", CERTAIN["slack_token"]),
    ],
)
def test_a_secret_is_found_in_values_however_nested(value: object) -> None:
    assert kind_of_secret("fine", value)
    assert kind_of_secret({"a": ["b", {"c": 1, "d": None, "e": True}]}, None, 3) is None


def test_a_change_to_what_is_masked_moves_the_version() -> None:
    texts = [*CERTAIN.values(), *ASSIGNED, *CHOSEN, *CUT, *EAGER]
    digest = hashlib.sha256("\0".join(map(mask, texts)).encode()).hexdigest()
    # When this fails, what is stored was masked otherwise: move VERSION too.
    assert (VERSION, digest[:16]) == ("1", "143a191d7d18c15e")


def test_the_standard_library_holds_no_secrets() -> None:
    paths = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    assert len(paths) > 100
    for path in paths:
        assert find_secrets(path.read_text(encoding="utf-8", errors="replace")) == [], path


def test_findings_come_in_order_without_overlap() -> None:
    text = "\n".join([*CERTAIN.values(), *ASSIGNED])
    findings = find_secrets(text)
    assert len(findings) == len(CERTAIN) + len(ASSIGNED)
    for before, after in itertools.pairwise(findings):
        assert before.end <= after.start
        assert before.line < after.line


def test_a_finding_does_not_repeat_the_secret() -> None:
    assert RANDOM not in repr(find_secrets(ASSIGNED[0]))


EAGER = [
    *CERTAIN.values(),
    *ASSIGNED,
    "password=hunter2",
    "password = 'correct horse battery'",
    'db_password: "hun\\"ter2 and more"',
    "PWD: hunter2",
    '{"token":"abc"}',
    "Authorization: Basic dXNlcjpwYXNz",
    "authorization=hunter2",
    "Proxy-Authorization: Digest username=hunter2, nonce=2",
    "Cookie: sid=hunter2; theme=dark",
    "x-api-key: hunter2",
    "bearer hunter2",
    "https://me:hunter2@example.com/x",
    "https://example.com/?sig=hunter2&x=1",
    "https://example.com/?access_token=hunter2&x=1",
    "run --password hunter2 --verbose",
    "run --api-key=hunter2",
    "the password is hunter2!",
    "AKIA" + "IOSFODNN7EXAMPLE",
    f"{BEGIN.format('EC ')}\n{PEM}\nMHcCAQ",
    "token=\x1b[32mhunter2\x1b[0m",
    "PASSWORD\u0130=x password=hunter2",
]


@pytest.mark.parametrize("text", EAGER)
def test_whatever_may_be_a_secret_is_blacked_out(text: str) -> None:
    clean = redact(f"before\n{text}\nafter")
    for part in ("hunter2", "horse", "ter2 and", "dXNlcjpw", "abc", RANDOM[:8], HEX[:8], PEM[:8]):
        assert part not in clean
    assert "IOSFODNN7" not in clean
    assert "[redacted:" in clean
    assert clean.startswith("before\n")
    assert clean.endswith(("\nafter", "[redacted:private_key]"))


@pytest.mark.parametrize("text", EAGER)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "Nothing to see here.",
        "def passes(compass, tokens): return max_tokens > 5",
        "tokenizer = Tokenizer()",
        "a keyboard, a monkey and an author walk in",
        "total_tokens: 500, token_count: 3",
        "https://example.com:8080/path?page=2",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text) == text


@given(
    before=st.text(max_size=20),
    secret=st.sampled_from(sorted(CERTAIN.values())),
    after=st.text(max_size=20),
)
def test_what_is_found_is_also_blacked_out(before: str, secret: str, after: str) -> None:
    text = f"{before} {secret} {after}"
    assert find_secrets(text)
    assert find_secrets(redact(text)) == []
    assert secret not in redact(text)


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("password", True),
        ("DB_PASSWORD", True),
        ("apiKey", True),
        ("X-Api-Key", True),
        ("Authorization", True),
        ("Set-Cookie", True),
        ("accessToken", True),
        ("auth", True),
        ("client_secret", True),
        ("author", False),
        ("tokens", False),
        ("max_tokens", False),
        ("token_count", False),
        ("content", False),
        ("key", False),
        ("monkey", False),
        ("", False),
    ],
)
def test_names_that_tell_of_a_secret(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


@pytest.mark.parametrize("part", [5, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    "text",
    [
        "password=" * 20_000,
        'secret="' + "\\" * 200_000,
        f"{BEGIN.format('')}\n" * 2_000,
        "eyJ" + "a." * 100_000,
        "token" + " " * 200_000,
        "://a:" * 40_000,
        "-" * 200_000 + "token",
        "bearer \n" * 20_000,
        "password=" + "a:" * 100_000,
        "password=a" + "::" * 100_000 + "!",
        'PASSWORD="' + "a_" * 100_000 + '"',
        "sk-." * 60_000 + "…",
        "DB_PASSWORD=aA1" * 20_000,
        "_" * 200_000 + "password=hunter2",
    ],
)
def test_no_text_takes_long(text: str, part: int) -> None:
    # What is odd about a text may be at either end.
    kept = len(text) // part
    text = text[: kept // 2] + text[len(text) - kept + kept // 2 :]
    start = time.process_time()
    find_secrets(text)
    mask(text)
    redact(text)
    # Of computing; linear work takes a fraction of this, quadratic work on the whole minutes.
    assert time.process_time() - start < 10 / part


_WORDS = ("api", "access", "auth", "key", "_", "-", " ", "pass", "word", "pwd", "token", "s", "x")


@given(st.lists(st.sampled_from((*_WORDS, "encryption", "secret", "session", "id", "entication"))))
def test_names_of_secrets_are_found_by_their_words_as_by_the_expression(parts: list[str]) -> None:
    text = "".join(parts)
    expected = [found.span() for found in secrets._SECRET_NAME.finditer(text)]
    assert [found.span() for found in secrets._secret_names(text)] == expected
