"""Who may see the page: this machine, with the token, from the page itself."""

from __future__ import annotations

import hmac
import secrets
import socket
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from indexer.errors import UncheckedError

HOST: Final = "127.0.0.1"

CONTENT_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'self'",
    )
)
HEADERS: Final = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}

_REFUSAL: Final = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>merkle</title>
<link rel="stylesheet" href="/static/page.css"><main class="refusal"><h1>{title}</h1>
<p>{text}</p></main></html>
"""
# A strict cookie is not sent when another site's link led here, nor after a redirect from there:
# a page of our own has to take the next step.
_NEXT_STEP: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>merkle</title>
<meta http-equiv="refresh" content="0; url=/"><p><a href="/">Open the page</a></p></html>
"""


class Address:
    """A loopback port that is ours, and the token that opens it."""

    def __init__(self, port: int = 0) -> None:
        try:
            self.listener = socket.create_server((HOST, port))
        except OSError as error:
            raise UncheckedError(
                f"cannot listen on {HOST}:{port}: {error.strerror or error}",
                hint="leave the port out of `--web` for one that is free",
            ) from error
        self.port: int = self.listener.getsockname()[1]
        self.token = secrets.token_urlsafe(24)
        self.cookie = secrets.token_urlsafe(24)

    @property
    def url(self) -> str:
        """Where a browser starts; the token is in it."""
        return f"http://{HOST}:{self.port}/?{urlencode({'token': self.token})}"

    @property
    def cookie_name(self) -> str:
        """Browsers do not keep the cookies of two ports apart, so the port is in its name."""
        return f"merkle-{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        """What a browser on this machine may call us."""
        return frozenset((f"{HOST}:{self.port}", f"localhost:{self.port}"))

    def close(self) -> None:
        """Let go of the port."""
        self.listener.close()


class Guard:
    """Looks at every request before the application does, and puts the same headers on all."""

    def __init__(self, application: ASGIApp, address: Address) -> None:
        self._application = application
        self._address = address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if scope["type"] != "http":
            return
        answer = self._judge(scope) or self._application
        await answer(scope, receive, send_guarded)

    def _judge(self, scope: Scope) -> Response | None:
        """The refusal, the way in, or None for what may pass."""
        headers = Headers(scope=scope)
        if headers.getlist("host") not in [[host] for host in self._address.hosts]:
            return _refusal(421, "Not this host", "This page answers to its own address only.")
        if foreign(headers, self._address):
            return _refusal(403, "Not from there", "Another site's page has no business here.")
        if scope["method"] not in ("GET", "HEAD"):
            return _refusal(405, "Reading only", "Nothing can be changed through this page.")
        if scope["path"].startswith("/static/") or self._has_cookie(headers):
            return None
        given = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token", "")
        if _equal(given, self._address.token):
            return self._welcome(headers)
        text = (
            "Open the address that <code>merkle watch --web</code> printed; while it runs,"
            " <code>merkle status</code> shows it too."
        )
        return _refusal(401, "A token is needed", text)

    def _has_cookie(self, headers: Headers) -> bool:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._address.cookie_name)
        except CookieError:
            return False
        return found is not None and _equal(found.value, self._address.cookie)

    def _welcome(self, headers: Headers) -> Response:
        """The token becomes a cookie that scripts cannot read, and leaves the address."""
        if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
            response = Response(status_code=303, headers={"location": "/"})
        else:
            response = Response(_NEXT_STEP, media_type="text/html")
        response.set_cookie(
            self._address.cookie_name, self._address.cookie, httponly=True, samesite="strict"
        )
        return response


def foreign(headers: Headers, address: Address) -> bool:
    """Whether a page of another origin asks; a link that is followed from there is fine."""
    origin = headers.get("origin")
    if origin is not None and origin not in {f"http://{host}" for host in address.hosts}:
        return True
    site = headers.get("sec-fetch-site", "none")
    followed = headers.get("sec-fetch-mode", "navigate") == "navigate"
    return site not in ("none", "same-origin") and not followed


def _equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())


def _refusal(status: int, title: str, text: str) -> Response:
    body = _REFUSAL.format(title=title, text=text)
    return Response(body, status_code=status, media_type="text/html")
