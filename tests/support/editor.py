"""An editor for tests: the protocol library's own client, with `merkle lsp` as a real process."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient
from pygls.protocol import default_converter

from tests.support.waiting import PATIENCE, wait_until


def _converter() -> Any:
    """The library's, which takes an action that has a command for a command."""
    made = default_converter()
    made.register_structure_hook(
        types.Command | types.CodeAction,
        lambda given, _: made.structure(
            given, types.Command if isinstance(given["command"], str) else types.CodeAction
        ),
    )
    return made


class EditorClient:
    """A client that can be asked from a test, and remembers what it was told."""

    def __init__(self, root: Path, *arguments: str, encodings: Any = None, **options: Any) -> None:
        self.root = root
        self.diagnostics: dict[str, list[types.Diagnostic]] = {}
        self.published: list[types.PublishDiagnosticsParams] = []
        self.messages: list[str] = []
        self.refreshed = 0
        self._versions: dict[str, int] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.client = LanguageClient("test", "1", converter_factory=_converter)
        self._listen()
        command = [sys.executable, "-P", "-m", "indexer.cli"]
        self._run(self.client.start_io(*command, *arguments, env=dict(os.environ), cwd=root))
        general = types.GeneralClientCapabilities(position_encodings=encodings)
        can = types.ClientCapabilities(
            general=general,
            workspace=types.WorkspaceClientCapabilities(
                code_lens=types.CodeLensWorkspaceClientCapabilities(refresh_support=True)
            ),
            text_document=types.TextDocumentClientCapabilities(
                document_symbol=types.DocumentSymbolClientCapabilities(
                    hierarchical_document_symbol_support=True
                )
            ),
        )
        given = types.InitializeParams(
            capabilities=can, root_uri=root.as_uri(), initialization_options=options or None
        )
        self.server = self._run(self.client.initialize_async(given))
        self.client.initialized(types.InitializedParams())

    def _listen(self) -> None:
        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: types.PublishDiagnosticsParams) -> None:
            self.published.append(params)
            self.diagnostics[params.uri] = list(params.diagnostics)

        @self.client.feature(types.WINDOW_SHOW_MESSAGE)
        def told(params: types.ShowMessageParams) -> None:
            self.messages.append(params.message)

        @self.client.feature(types.WORKSPACE_CODE_LENS_REFRESH)
        def refresh(*_: Any) -> None:
            self.refreshed += 1

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def ask(self, method: str, params: Any) -> Any:
        """A request's result."""
        return self._run(getattr(self.client, f"{method}_async")(params))

    def tell(self, method: str, params: Any) -> None:
        """Send a notification."""
        self._loop.call_soon_threadsafe(getattr(self.client, method), params)

    def uri(self, path: str) -> str:
        """The address of a file of the workspace."""
        return (self.root / path).as_uri()

    def document(self, path: str) -> types.TextDocumentIdentifier:
        """A file, as requests name it."""
        return types.TextDocumentIdentifier(self.uri(path))

    def open(self, path: str, text: str | None = None) -> None:
        """Open a file, and wait until something was said about it."""
        said = (self.root / path).read_text() if text is None else text
        self._versions[path] = 1
        item = types.TextDocumentItem(self.uri(path), "text", 1, said)
        seen = len(self.published)
        self.tell("text_document_did_open", types.DidOpenTextDocumentParams(item))
        wait_until(
            lambda: any(one.uri == self.uri(path) for one in self.published[seen:]),
            "something is said about the file",
        )

    def type(self, path: str, text: str) -> None:
        """Change the buffer, without saving it."""
        self._versions[path] += 1
        item = types.VersionedTextDocumentIdentifier(self._versions[path], self.uri(path))
        change = types.TextDocumentContentChangeWholeDocument(text)
        given = types.DidChangeTextDocumentParams(item, [change])
        self.tell("text_document_did_change", given)

    def stale(self, path: str) -> list[types.Diagnostic]:
        """The diagnostics of a file."""
        return self.diagnostics.get(self.uri(path), [])

    def hover(self, path: str, line: int, character: int) -> str | None:
        """What is shown at a place."""
        at = types.Position(line, character)
        found = self.ask("text_document_hover", types.HoverParams(self.document(path), at))
        return None if found is None else found.contents.value

    def actions(self, path: str, line: int, only: Any = None) -> list[types.CodeAction]:
        """What can be done in a line."""
        where = types.Range(types.Position(line, 0), types.Position(line, 0))
        context = types.CodeActionContext([], only=only)
        given = types.CodeActionParams(self.document(path), where, context)
        return list(self.ask("text_document_code_action", given))

    def execute(self, command: str, *arguments: Any) -> Any:
        """Have a command done."""
        given = types.ExecuteCommandParams(command, list(arguments))
        return self.ask("workspace_execute_command", given)

    def close(self) -> int:
        """Leave as an editor does; the server's exit status."""
        self.ask("shutdown", None)
        self.tell("exit", None)
        process = self.client._server
        assert process is not None
        status: int = self._run(process.wait())
        self._run(self.client.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()
        return status

    def __enter__(self) -> EditorClient:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.close() == 0
