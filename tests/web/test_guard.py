"""Who may see the page: nobody without the token, from elsewhere, or under another name."""

from __future__ import annotations

import http.client
import json
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from indexer.mcp.calls import Calls
from tests.support.processes import run

PAGES = (
    "/", "/node?path=README.md", "/search?q=md", "/roots", "/diff", "/sessions", "/session?name=x",
    "/events", "/nothing",
)  # fmt: skip


def test_it_listens_on_this_machine_only(site: Any) -> None:
    assert site.url.startswith("http://127.0.0.1:")
    port = f"{site.port:04X}"
    tables = [Path(f"/proc/{site.process.pid}/net/{name}") for name in ("tcp", "tcp6")]
    if not tables[0].exists():
        pytest.skip("no /proc/net here to read")
    bound = [
        line.split()[1]
        for table in tables
        for line in table.read_text().splitlines()[1:]
        if line.split()[1].endswith(f":{port}") and line.split()[3] == "0A"
    ]
    assert bound == [f"0100007F:{port}"]


@pytest.mark.parametrize("target", PAGES)
def test_without_the_token_nothing_is_told(site: Any, target: str) -> None:
    for headers in ({}, {"Cookie": "merkle=x"}, {"Cookie": f"merkle-{site.port}=wrong"}):
        answer = site.ask(target, **headers)
        assert answer.status == 401
        assert "README" not in answer.body
        assert "set-cookie" not in answer.headers


def test_a_wrong_token_is_refused(site: Any) -> None:
    for target in ("/?token=", "/?token=x", site.target[:-1], "/?token=%ff%fe"):
        assert site.ask(target).status == 401


def test_the_token_becomes_a_cookie_and_leaves_the_address(site: Any) -> None:
    answer = site.ask(site.target)
    assert (answer.status, answer.headers["location"]) == (303, "/")
    name, _, rest = answer.headers["set-cookie"].partition("=")
    # Browsers keep no cookies of two ports apart.
    assert name == f"merkle-{site.port}"
    assert "HttpOnly" in rest
    assert "SameSite=strict" in rest
    token = site.target.partition("token=")[2]
    assert token not in rest
    assert site.get("/").status == 200
    assert token not in site.get("/").body


def test_a_link_on_another_site_takes_a_step_of_its_own(site: Any) -> None:
    answer = site.ask(site.target, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")
    assert answer.status == 200
    assert "location" not in answer.headers
    assert 'content="0; url=/"' in answer.body
    assert "README" not in answer.body


@pytest.mark.parametrize("target", ["/", "/events", "/static/page.css"])
def test_another_host_is_refused(site: Any, target: str) -> None:
    for host in ("evil.example", f"evil.example:{site.port}", "127.0.0.1", "127.0.0.1:1", ""):
        answer = site.ask(target, Host=host, Cookie=site.cookie)
        assert answer.status in (400, 421), host
        assert "README" not in answer.body


def test_the_other_name_of_this_machine_will_do(site: Any) -> None:
    assert site.ask("/", Host=f"localhost:{site.port}", Cookie=site.cookie).status == 200


def test_another_origin_is_refused(site: Any) -> None:
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", f"https://{site.netloc}"):
        assert site.ask("/", Cookie=site.cookie, Origin=origin).status == 403, origin
    for fetched in ("cross-site", "same-site"):
        asked = {"Sec_Fetch_Site": fetched, "Sec_Fetch_Mode": "cors", "Cookie": site.cookie}
        assert site.ask("/", **asked).status == 403
    own = site.ask("/", Cookie=site.cookie, Origin=f"http://{site.netloc}")
    assert own.status == 200
    assert not [name for name in own.headers if name.startswith("access-control")]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_there_is_nothing_to_write(site: Any, method: str) -> None:
    for target in ("/", "/events", "/static/page.js", "/v1/scan"):
        assert site.ask(target, method=method, Cookie=site.cookie).status == 405


def test_the_operations_of_the_socket_are_not_here(site: Any) -> None:
    for target in ("/v1/health", "/v1/status", "/v1/log"):
        assert site.get(target).status == 404


@pytest.mark.parametrize("target", [*PAGES[:7], "/nothing", "/static/page.css", "/static/x"])
def test_every_answer_has_the_strict_policy(site: Any, target: str) -> None:
    for answer in (site.get(target), site.ask(target), site.ask(target, Host="evil.example")):
        policy = answer.headers["content-security-policy"].split("; ")
        assert policy == [
            "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
            "img-src 'self' data:", "frame-ancestors 'none'", "base-uri 'none'",
            "form-action 'self'",
        ]  # fmt: skip
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"


def test_static_files_are_only_those_of_the_page(site: Any) -> None:
    assert site.ask("/static/page.css").status == 200
    for name in ("../pages.py", "%2e%2e/pages.py", "..%2fguard.py", "/etc/passwd", ""):
        assert site.ask(f"/static/{name}").status in (404, 405), name


def test_status_shows_the_address_to_the_owner_only(site: Any) -> None:
    with site.workspace() as workspace:
        service = workspace.status()["service"]
    assert service["web"] == site.url
    assert site.said == {
        "workspace": str(site.root), "pid": site.process.pid, "web": site.url,
    }  # fmt: skip
    # The only ways to it are a socket and a folder that nobody else can enter.
    address = Path((site.root / ".merkle" / "socket").read_text().strip())
    assert stat.S_IMODE(address.stat().st_mode) == 0o600
    assert stat.S_IMODE(address.parent.stat().st_mode) == 0o700
    token = site.target.partition("token=")[2]
    told = [p for p in (site.root / ".merkle").rglob("*") if p.is_file() and p.stat().st_size < 999]
    assert told
    assert not [path for path in told if token.encode() in path.read_bytes()]


def merkle(site: Any, *arguments: str | Path) -> tuple[int, str]:
    code, out, _ = run(["-m", "indexer.cli", *arguments], env=site.environment, cwd="/")
    return code, out


def test_status_in_words_shows_it_too(site: Any) -> None:
    shown = merkle(site, "-C", site.root, "status")[1]
    assert site.url in shown
    site.root.parent.joinpath("bare").mkdir()
    assert "web page" not in merkle(site, "-C", site.root.parent / "bare", "status")[1]


def test_a_port_that_is_taken_is_named(site: Any, tmp_path: Path) -> None:
    code, out = merkle(site, "-C", tmp_path, "--json", "watch", "--web", str(site.port))
    assert code == 3
    problem = json.loads(out)["error"]
    assert f"127.0.0.1:{site.port}" in problem["message"]
    assert "leave the port out" in problem["hint"]
    # Refused before anything was made.
    assert not (tmp_path / ".merkle").exists()


def test_wrong_use_is_refused(site: Any, tmp_path: Path) -> None:
    for line in (["--once", "--web"], ["--web", "65536"], ["--web", "-1"]):
        assert merkle(site, "-C", tmp_path, "watch", *line)[0] == 2
    assert not (tmp_path / ".merkle").exists()


def test_a_service_that_runs_already_keeps_its_page(site: Any) -> None:
    code, out = merkle(site, "-C", site.root, "watch", "--web")
    assert code == 6
    assert "token" not in out


def test_a_port_can_be_chosen_and_every_start_has_its_own_token(
    base: Path, sites: Callable[..., Any]
) -> None:
    folder = base / "small"
    folder.mkdir()
    first = sites(folder)
    assert first.stop() == 0
    second = sites(folder, str(first.port))
    assert second.port == first.port
    assert second.url != first.url
    assert second.ask(first.target).status == 401
    assert second.stop() == 0


def test_a_page_that_is_open_does_not_keep_the_service_from_stopping(
    base: Path, sites: Callable[..., Any]
) -> None:
    folder = base / "watched"
    folder.mkdir()
    served = sites(folder).enter()
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    try:
        connection.request("GET", "/events", headers={"Cookie": served.cookie})
        response = connection.getresponse()
        assert [response.readline() for _ in range(2)] == [b"retry: 1000\n", b": here\n"]
        assert served.stop() == 0
        # The stream ends properly rather than being cut off.
        response.read()
    finally:
        connection.close()


def test_the_page_costs_nothing_where_nobody_wants_it() -> None:
    program = (
        "import sys, indexer.service.run, indexer.service.serving, indexer.cli.watch\n"
        "print([n for n in ('jinja2', 'markdown_it', 'indexer.web') if n in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert ran.stdout.strip() == "[]"


def test_no_answer_to_a_model_has_the_token(site: Any) -> None:
    """An agent asks by MCP; the address with the token in it is for the person at the machine."""
    token = parse_qs(urlsplit(site.url).query)["token"][0]
    with site.workspace() as workspace:
        assert token in workspace.status()["service"]["web"]
    calls = Calls(site.root, None)
    given: dict[str, dict[str, Any]] = {
        "status": {}, "get_node": {"node": ""}, "compose": {}, "search": {"query": "tide"},
        "explain": {"node": ""}, "diff": {"old": "@-0"}, "regenerate": {"plan": True},
        "session": {"action": "list"},
    }  # fmt: skip
    for tool, arguments in given.items():
        answer = json.dumps(calls.call(tool, arguments))
        assert token not in answer, tool
        assert f":{site.port}" not in answer, tool
