"""The page in a real Chromium: what people see, and what hostile content cannot do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

import pytest

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = [
    pytest.mark.skipif(
        CHROMIUM is None, reason="no chromium on this machine (apt-get install chromium)"
    ),
    # Pages are opened in a browser that starts once, however slow the machine.
    pytest.mark.timeout(240),
]

WINDOW: ViewportSize = {"width": 1280, "height": 900}

HOSTILE_BODY = """<script>window.marker = "script"</script>
<img src=x onerror="window.marker='image'"> <svg onload="window.marker='svg'"></svg>
[click](javascript:window.marker='link') [data](data:text/html,<script>window.marker=1</script>)
<javascript:window.marker='auto'> ![x](http://127.0.0.1:9/pixel.png)
{{ 7*7 }} {% raw %} ${7*7} \x1b[31mred\x1b[0m \u202egnp.exe\u202c &#x202e;
</div></main></html><iframe src="/"></iframe><base href="http://evil.example/">
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        # A process that computes in place of a graphics card would be a tenth of what this costs.
        arguments = ["--disable-gpu", "--disable-software-rasterizer", "--in-process-gpu"]
        # A root user has no sandbox; what is opened is our own page.
        arguments += ["--no-sandbox"] if os.geteuid() == 0 else []
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield started
        started.close()


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Page:
    """One for all that want nothing special: opening one costs as much as three pages in it."""
    return browser.new_context(viewport=WINDOW).new_page()


class Seen:
    """A page, and everything in it that should never happen."""

    def __init__(self, page: Page, site: Any, target: str | None) -> None:
        self.page = page
        self.troubles: list[str] = []
        self.loads = 0
        self.asked: list[str] = []
        self._heard: dict[Any, Callable[[Any], None]] = {
            "console": lambda m: self.troubles.append(f"console: {m.type} {m.text}"),
            "pageerror": lambda error: self.troubles.append(f"error: {error}"),
            "dialog": lambda dialog: self.troubles.append(f"dialog: {dialog.message}"),
            "request": lambda request: self.asked.append(request.url),
            "load": lambda _: self._loaded(),
        }
        for event, hear in self._heard.items():
            page.on(event, hear)
        self.site = site
        self.base = f"http://{site.netloc}"
        if target is None:
            self.page.goto(site.url)
        else:
            # As who has come in before: no page is drawn only to be left at once.
            name, _, value = site.cookie.partition("=")
            self.page.context.add_cookies([{"name": name, "value": value, "url": self.base}])
            self.page.goto(self.base + target)
        self.is_live()

    def _loaded(self) -> None:
        self.loads += 1

    def leave(self) -> None:
        """Take leave of the site, and leave nothing of it to whoever uses the tab next."""
        self.page.goto("about:blank")
        self.page.set_viewport_size(WINDOW)
        self.page.emulate_media(color_scheme="null")
        self.page.context.clear_cookies()
        for event, hear in self._heard.items():
            self.page.remove_listener(event, hear)
        self._heard.clear()

    def is_live(self) -> None:
        self.page.wait_for_selector('#live[data-state="on"]')

    def goto(self, target: str) -> Page:
        self.page.goto(self.base + target)
        self.is_live()
        return self.page

    def fill(self, path: str) -> str:
        """The computed colour of a tile."""
        selector = f'svg.map.wide a.tile[data-path="{path}"] > svg > .fill'
        return str(self.page.eval_on_selector(selector, "e => getComputedStyle(e).fill"))

    def overflows(self) -> bool:
        return bool(self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))


@pytest.fixture
def see(browser: Browser, tab: Page) -> Iterator[Callable[..., Seen]]:
    opened: list[Seen] = []

    def start(site: Any, target: str | None = None, **options: Any) -> Seen:
        page = browser.new_context(**{"viewport": WINDOW, **options}).new_page() if options else tab
        opened.append(Seen(page, site, target))
        return opened[-1]

    yield start
    for seen in opened:
        seen.leave()
        if seen.page is not tab:
            seen.page.context.close()
    for seen in opened:
        assert seen.troubles == []
        assert all(url.startswith(seen.base) for url in seen.asked), "nothing else is fetched"


def tile(path: str) -> str:
    return f'svg.map.wide a.tile[data-path="{path}"]'


def test_the_page_shows_the_sample_workspace(site: Any, see: Callable[..., Seen]) -> None:
    page = see(site).page
    assert "token" not in page.url
    for name in ("ingest", "gateway", "dashboard", "docs", "README.md"):
        box = page.locator(tile(name)).bounding_box()
        assert box is not None
        assert box["width"] > 20
        assert box["height"] > 15
    assert page.locator("h1").inner_text() == "sample"
    heavy, light = (page.locator(tile(n)).bounding_box() for n in ("ingest", "config"))
    assert heavy is not None
    assert light is not None
    assert heavy["width"] * heavy["height"] > 10 * light["width"] * light["height"]
    # Into a folder, to a file, and back by the links above it.
    page.click(tile("docs"), position={"x": 8, "y": 8})
    page.wait_for_url("**/?at=docs")
    page.click(tile("docs/runbook.md"))
    page.wait_for_url("**/node?path=docs/runbook.md")
    assert "A station is silent" in page.locator("#frames").inner_text()
    page.click("h1 a >> nth=0")
    assert page.locator(tile("ingest")).count() == 1


def test_an_edit_on_disk_changes_the_page_without_reload(
    site: Any, see: Callable[..., Seen]
) -> None:
    seen = see(site)
    page = seen.page
    page.evaluate("window.marker = 'same page'")
    loads = seen.loads
    root = page.locator("#summary .id").get_attribute("title")
    (site.root / "docs" / "arrived.md").write_text("# Arrived\n\nJust now.\n" * 20)
    page.wait_for_selector(tile("docs/arrived.md"))
    page.wait_for_selector('#recent :text("docs/arrived.md")')
    page.wait_for_function(
        "root => document.querySelector('#summary .id').title !== root", arg=root
    )
    (site.root / "docs" / "arrived.md").unlink()
    page.wait_for_selector(tile("docs/arrived.md"), state="detached")
    # A node's own page follows as well.
    page.goto(seen.base + "/node?path=docs/calibration.md")
    seen.is_live()
    page.evaluate("window.marker = 'same page'")
    loads = seen.loads
    file = site.root / "docs" / "calibration.md"
    file.write_text(file.read_text() + "\n## Afterwards\n\nWrite it down.\n")
    page.wait_for_selector('#frames :text("Afterwards")')
    assert page.evaluate("window.marker") == "same page"
    assert seen.loads == loads


def test_notes_are_followed_without_reload(site: Any, see: Callable[..., Seen]) -> None:
    path = "docs/followed.md"
    file = site.root / path
    file.write_text("# Followed\n\nBy a page.\n")
    with site.workspace() as workspace:
        workspace.status()
        seen = see(site, f"/node?path={path}")
        page = seen.page
        page.evaluate("window.marker = 'same page'")
        loads = seen.loads
        note = {"frame_type": "note", "agent": "reviewer"}
        first = workspace.put_frame(path, "The first word.", **note)["frame_id"]
        page.wait_for_selector('#frames :text("The first word.")')
        workspace.put_frame(path, "The second word.", **note)
        page.wait_for_selector('#frames :text("The second word.")')
        assert page.locator('#frames :text("The first word.")').count()
        workspace.put_frame(path, "The last word.", replaces=[first], **note)
        page.wait_for_selector('#frames :text("The first word.")', state="detached")
    before = file.read_text()
    file.write_text(before + "More.\n")
    page.wait_for_selector('#frames :text("the content it was written about changed")')
    file.write_text(before)
    page.wait_for_selector(
        '#frames :text("the content it was written about changed")', state="detached"
    )
    assert page.evaluate("window.marker") == "same page"
    assert seen.loads == loads


def test_a_stale_frame_turns_colour(site: Any, see: Callable[..., Seen]) -> None:
    path = "gateway/internal/api/handler.go"
    with site.workspace() as workspace:
        workspace.put_frame(path, "It limits.", frame_type="note", agent="reviewer")
    seen = see(site)
    page = seen.page
    page.wait_for_selector(f'{tile(path)}[data-state="fresh"]')
    page.evaluate("window.marker = 'same page'")
    fresh = seen.fill(path)
    file = site.root / path
    file.write_text(file.read_text() + "\n// changed\n")
    page.wait_for_selector(f'{tile(path)}.stale[data-state="stale"]')
    stale = seen.fill(path)
    assert stale != fresh
    swatch = page.eval_on_selector(".swatch.stale .fill", "e => getComputedStyle(e).fill")
    assert stale == swatch
    # Not by colour alone: hatched, named in the label, and listed with the reason.
    assert page.locator(f"{tile(path)} .pattern").count() == 1
    assert "stale" in str(page.locator(tile(path)).get_attribute("aria-label"))
    assert "the content it was written about changed" in page.inner_text("#not-fresh")
    assert page.evaluate("window.marker") == "same page"


@pytest.mark.parametrize(
    "zones",
    [["Asia/Tokyo"], pytest.param(["Asia/Tokyo", "America/Lima"], marks=pytest.mark.soak)],
    ids=len,
)
def test_times_are_those_of_whoever_reads(
    site: Any, see: Callable[..., Seen], zones: list[str]
) -> None:
    shown = []
    for zone in zones:
        page = see(site, "/roots", timezone_id=zone, locale="en-GB").page
        moment = page.locator("time").first
        at = datetime.fromisoformat(moment.get_attribute("datetime") or "")
        shown.append(moment.inner_text())
        assert at.astimezone(ZoneInfo(zone)).strftime("%H:%M:%S") in shown[-1]
    assert len({*shown}) == len(zones)


def test_a_page_whose_subject_is_gone_says_so(site: Any, see: Callable[..., Seen]) -> None:
    folder = site.root / "short-lived"
    folder.mkdir()
    (folder / "file.md").write_text("# Here\n")
    with site.workspace() as workspace:
        workspace.status()
    seen = see(site, "/?at=short-lived")
    page = seen.page
    shutil.rmtree(folder)
    page.wait_for_selector('#live[data-state="lost"]:has-text("short-lived is no folder")')
    # The answer that said so is the one thing the browser remarks on.
    assert all("400" in trouble for trouble in seen.troubles)
    seen.troubles.clear()
    folder.mkdir()
    (folder / "again.md").write_text("# Again\n")
    page.wait_for_selector(tile("short-lived/again.md"))
    seen.is_live()


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.soak)])
def test_hostile_names_and_bodies_do_nothing(
    base: Path, sites: Callable[..., Any], see: Callable[..., Seen], every: int
) -> None:
    root = base / f"hostile-{every}"
    (root / "<img src=x onerror=window.marker=1>").mkdir(parents=True)
    names = [
        "<script>window.marker=2;<script>.md", "\"><img src=x onerror=window.marker=3>.py",
        "a\u202egnp.js", "ansi\x1b[31m.txt", "{{ 7*7 }}.txt", "javascript:window.marker=4",
        "' onfocus='window.marker=5' autofocus='",
    ]  # fmt: skip
    for name in names:
        (root / name).write_text(HOSTILE_BODY)
    (root / "<img src=x onerror=window.marker=1>" / "inner.md").write_text(HOSTILE_BODY)
    site = sites(root).enter()
    with site.workspace() as workspace:
        workspace.agent_add("reviewer", "writer")
        for name in names[:2]:
            workspace.put_frame(
                f"path:{name}", HOSTILE_BODY, frame_type="note", agent="reviewer",
                meta={"<i>": "<script>window.marker=6</script>"},
            )  # fmt: skip
        children = workspace.get_node("")["children"]
    site.settles()
    seen = see(site)
    page = seen.page
    # All of them are on the first page; these have their own page read, too.
    for name in children[::every]:
        page.goto(
            seen.base
            + "/node?"
            + str(page.evaluate("n => new URLSearchParams({path: n})+''", name))
        )
        seen.is_live()
        assert page.evaluate("window.marker") is None
        for details in page.query_selector_all("details"):
            details.evaluate("e => { e.open = true }")
        for link in page.query_selector_all("#frames a"):
            target = link.get_attribute("href")
            assert target is None or target.startswith("http")
        for inert in page.query_selector_all("#frames a.inert"):
            inert.click()
    for target in ("/", "/roots", "/search?q=js", "/search?q=%3Cscript%3Ealert(1)%3C/script%3E"):
        seen.goto(target)
        assert page.evaluate("window.marker") is None
        assert "\u202e" not in page.inner_text("body")
        assert page.locator("iframe, base, img").count() == 0
    # Live updates put new names into the page: they are text there too.
    seen.goto("/")
    (root / "<img src=x onerror=window.marker=7>.md").write_text("x")
    page.wait_for_selector('#contents :text("window.marker=7")')
    assert page.evaluate("window.marker") is None
    seen.leave()
    assert site.stop() == 0


def test_a_session_is_followed_and_selected_from(site: Any, see: Callable[..., Seen]) -> None:
    with site.workspace() as workspace:
        workspace.session_new("watched")
        workspace.session_append("watched", type="dialogue", role="user", text="a question")
        workspace.session_commit("watched")
        seen = see(site, "/sessions")
        page = seen.page
        page.click("text=watched")
        page.wait_for_selector('#talk :text("a question")')
        seen.is_live()
        page.fill('input[name="select"]', ".cb[role='assistant']")
        workspace.session_append("watched", type="dialogue", role="assistant", text=HOSTILE_BODY)
        page.wait_for_selector('#talk :text("window.marker")')
        # What is being typed stays when the page is brought up to date.
        assert page.input_value('input[name="select"]') == ".cb[role='assistant']"
        page.keyboard.press("Enter")
        page.wait_for_selector('#tree h2:text("1 node found")')
        assert page.locator('#tree :text("a question")').count() == 0
        assert page.evaluate("window.marker") is None


@pytest.mark.soak
def test_strangers_are_refused(site: Any, browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    answer = page.goto(f"http://{site.netloc}/")
    assert answer is not None
    assert answer.status == 401
    assert "A token is needed" in page.inner_text("main")
    assert page.locator("text=README").count() == 0
    context.close()
    # By another name for the same address, as a rebound name would be.
    rebound = browser.new_context(extra_http_headers={"X-Seen": "1"})
    page = rebound.new_page()
    foreign = page.goto(f"http://rebound.localhost:{site.port}{site.target}")
    assert foreign is not None
    assert foreign.status == 421
    assert rebound.cookies() == []
    rebound.close()


def test_another_page_on_this_machine_learns_nothing(
    site: Any, base: Path, sites: Callable[..., Any], browser: Browser
) -> None:
    folder = base / "other"
    folder.mkdir(exist_ok=True)
    other = sites(folder).enter()
    context = browser.new_context(bypass_csp=True)
    page = context.new_page()
    page.goto(site.url)
    page.goto(other.url)
    # Its cookies go along, since ports share them: still nothing may be read.
    told = page.evaluate(
        "async url => { try { const a = await fetch(url, {credentials: 'include'});"
        " return a.status + await a.text() } catch (e) { return 'refused' } }",
        f"http://{site.netloc}/",
    )
    assert told == "refused"
    framed = page.evaluate(
        "url => new Promise(done => { const f = document.createElement('iframe');"
        " f.onload = () => { try { done(f.contentDocument ? 'read' : 'closed') }"
        " catch (e) { done('closed') } }; f.src = url; document.body.append(f) })",
        f"http://{site.netloc}/",
    )
    assert framed == "closed"
    context.close()
    assert other.stop() == 0


def test_everything_is_reached_by_keyboard(site: Any, see: Callable[..., Seen]) -> None:
    seen = see(site)
    page = seen.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    shown = page.evaluate(
        "(() => { const s = getComputedStyle(document.activeElement);"
        " return s.outlineStyle + s.outlineWidth })()"
    )
    assert shown == "solid2px"
    page.evaluate(
        "window.reached = []; document.addEventListener('focusin',"
        " event => reached.push(event.target.getAttribute('href')))"
    )
    links = page.eval_on_selector_all(
        "a[href]",
        "all => all.filter(a => a.getClientRects().length).map(a => a.getAttribute('href'))",
    )
    assert len(links) > 20
    for _ in range(20):
        for _ in range(20):
            page.keyboard.press("Tab")
        reached = set(page.evaluate("reached"))
        if set(links) - {"#main"} <= reached:
            break
    assert set(links) - {"#main"} <= reached
    # Arrows go from tile to tile, Enter goes in, a slash goes to the search.
    page.focus(tile("ingest"))
    page.keyboard.press("ArrowRight")
    moved = page.evaluate("document.activeElement.dataset.path")
    assert moved not in (None, "ingest")
    edge = page.evaluate(
        "getComputedStyle(document.activeElement.querySelector('.edge')).strokeWidth"
    )
    assert edge == "5px"
    page.focus(tile("docs"))
    page.keyboard.press("Enter")
    page.wait_for_url("**/?at=docs")
    page.keyboard.press("/")
    page.keyboard.type("surge")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=surge")
    assert page.locator('#paths a[href="/node?path=ingest/saltgauge/surge.py"]').count() == 1


def test_a_refresh_keeps_the_keyboard_where_it_was(site: Any, see: Callable[..., Seen]) -> None:
    page = see(site).page
    page.focus(tile("dashboard/src/main.ts"))
    root = page.locator("#summary .id").get_attribute("title")
    (site.root / "config" / "touched.txt").write_text("x")
    page.wait_for_function(
        "root => document.querySelector('#summary .id').title !== root", arg=root
    )
    assert page.evaluate("document.activeElement.dataset.path") == "dashboard/src/main.ts"


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (400, "light"),
        (1280, "dark"),
        pytest.param(400, "dark", marks=pytest.mark.soak),
        pytest.param(1280, "light", marks=pytest.mark.soak),
    ],
)
def test_it_fits_and_can_be_read(
    site: Any, see: Callable[..., Seen], width: int, scheme: Literal["light", "dark"]
) -> None:
    seen = see(site)
    page = seen.page
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    targets = ["/", "/node?path=ingest/saltgauge/surge.py"]
    if width == 400 and scheme == "light":
        targets += [
            "/?at=ingest/saltgauge", "/node?path=", "/roots", "/diff?old=@-0&new=@-0",
            "/search?q=md", "/node?path=nowhere", "/sessions",
        ]  # fmt: skip
    for target in targets:
        page.goto(seen.base + target)
        assert not seen.overflows(), target
    seen.troubles = [t for t in seen.troubles if "404" not in t]
    seen.goto("/")
    assert page.locator("svg.map").locator("visible=true").count() == 1
    back, ink = page.evaluate(
        "[getComputedStyle(document.documentElement).backgroundColor,"
        " getComputedStyle(document.body).color]"
    )
    assert contrast(back, ink) > 7
    assert (luminance(back) < 0.2) is (scheme == "dark")
    for state in ("fresh", "stale"):
        colours = page.evaluate(
            "state => { const b = document.createElement('span'); b.className = 'badge ' + state;"
            " document.body.append(b); const s = getComputedStyle(b);"
            " return [s.backgroundColor, s.color] }",
            state,
        )
        assert contrast(*colours) > 4.5, state


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").rstrip(")").split(",")[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_the_page_finds_the_service_again(
    base: Path, sites: Callable[..., Any], see: Callable[..., Seen]
) -> None:
    root = base / "restarted"
    root.mkdir()
    (root / "README.md").write_text("# Here\n")
    site = sites(root)
    seen = see(site)
    assert site.stop() == 0
    seen.page.wait_for_selector('#live[data-state="lost"]')
    again = sites(root, str(site.port))
    # Another start has another token: the page says so rather than show what may be old.
    wait_until(
        lambda: "new address" in seen.page.inner_text("#live"), "the page says that it ended"
    )
    seen.troubles.clear()
    assert again.stop() == 0
