"""The protocol's side: an editor's questions, asked of the service beside the loop that reads them.

Everything that is sent, and everything that is known of the editor, stays on the loop; what asks
the service runs on other threads, with the editor as it was when it asked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from indexer import __version__
from indexer.core.paths import on_screen
from indexer.errors import MerkleError
from indexer.lsp import answers, commands
from indexer.lsp.addresses import local_name, path_in
from indexer.lsp.answers import Editor, Open
from indexer.lsp.notes import Note
from indexer.service.following import Following
from indexer.service.served import ServedWorkspace, wake_service
from indexer.service.workspace import Workspace, find_workspace

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)
_PAUSE: Final = 0.3
"""Seconds after a keystroke before it is said anew where things stand in the buffer."""

_FOLLOWED: Final = frozenset(("node", "frame"))


class RefusedError(JsonRpcException):
    """A command that was not done, with what to do about it."""

    CODE = int(types.LSPErrorCodes.RequestFailed)
    MESSAGE = "refused"


class Server(LanguageServer):
    """One workspace for one editor, in the name of one agent or of nobody."""

    def __init__(
        self, root: Path | None, agent: str | None = None, wait: float | None = None
    ) -> None:
        # Whole texts: the library's lines are not the protocol's, so pieces would end up elsewhere.
        super().__init__(
            "merkle", __version__, text_document_sync_kind=types.TextDocumentSyncKind.Full
        )
        self.root = root or Path.cwd()
        self._given = root is not None
        self.agent = agent
        self._wait = wait
        self._files: dict[str, str] = {}
        """The files that are open, by their address: what the workspace calls them."""
        self._copies = False
        self._told: set[str] = set()
        self._refreshing: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        self._shown: dict[str, list[Note]] = {}
        self._published: dict[str, types.PublishDiagnosticsParams] = {}
        self._writer: str | None = None
        """In whose name notes are written, once that is known."""
        self._following: Following | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        _register(self)

    def choose_workspace(self, params: types.InitializeParams) -> None:
        """Serve the workspace that the editor has open, unless the command line named one."""
        folders = [folder.uri for folder in params.workspace_folders or ()]
        named = [local_name(uri) for uri in (*folders, params.root_uri) if uri]
        if not self._given:
            found = [Path(name) for name in named if name is not None and Path(name).is_dir()]
            self.root = find_workspace(found[0] if found else None)
        wake_service(self.root)

    def editor(self) -> Editor:
        """The editor as it is now."""
        can = self.client_capabilities.text_document
        formats = can.hover.content_format if can and can.hover else None
        symbols = can.document_symbol if can else None
        files = {}
        for uri, path in self._files.items():
            document = self.workspace.text_documents.get(uri)
            if document is not None:
                files[path] = Open(uri, path, document.source, document.version)
        return Editor(
            root=self.root,
            files=files,
            encoding=str(getattr(self._encoding, "value", self._encoding)),
            markdown=formats is None or types.MarkupKind.Markdown in formats,
            hierarchy=bool(symbols and symbols.hierarchical_document_symbol_support),
            copies=self._copies,
        )

    @property
    def _encoding(self) -> Any:
        return self.server_capabilities.position_encoding or types.PositionEncodingKind.Utf16

    def notice_options(self, options: Any) -> None:
        """Take in what an editor says of itself in options that are this server's own."""
        self._copies = isinstance(options, dict) and options.get("copies") is True

    async def ask(self, work: Callable[[Workspace], T]) -> T:
        """Do something with the workspace through its service, which is started if none runs."""

        def asked() -> T:
            with ServedWorkspace.open(self.root, wait=self._wait) as workspace:
                return work(workspace)

        return await asyncio.to_thread(asked)

    async def answer(self, work: Callable[[Workspace], T], otherwise: T) -> T:
        """Like `ask`, for what an editor asks by itself: trouble is told once, and is no answer."""
        try:
            return await self.ask(work)
        except MerkleError as error:
            self._trouble(error)
        except Exception:
            _log.exception("a question was not answered")
        return otherwise

    async def do(self, work: Callable[[Workspace], T]) -> T:
        """Like `ask`, for what a person asked for: it is done, or it is said why not."""
        try:
            return await self.ask(work)
        except MerkleError as error:
            raise RefusedError(_words(error)) from error

    async def write(self, frame_id: str, work: Callable[[Workspace, str], commands.Written]) -> str:
        """Do something about a note; what nobody has to look at any more is gone at once."""

        def written(workspace: Workspace) -> commands.Written:
            if self._writer is None:
                self._writer = commands.acting(workspace, self.agent)
            return work(workspace, self._writer)

        try:
            done = await self.do(written)
        except RefusedError:
            # Perhaps because that agent is not registered any more.
            self._writer = None
            raise
        if done.is_settled:
            self._settle(frame_id)
        self.refresh_all()
        return done.words

    def _settle(self, frame_id: str) -> None:
        """Publish at once without what was said of a note; all of it is asked for again later."""
        for uri, last in list(self._published.items()):
            left = [one for one in last.diagnostics if one.data != {"frame_id": frame_id}]
            if len(left) < len(last.diagnostics):
                self._publish(types.PublishDiagnosticsParams(uri, left, version=last.version))

    def _publish(self, found: types.PublishDiagnosticsParams) -> None:
        self._published[found.uri] = found
        self.text_document_publish_diagnostics(found)

    def _trouble(self, error: MerkleError) -> None:
        words = _words(error)
        if words not in self._told:
            self._told.add(words)
            self.window_show_message(types.ShowMessageParams(types.MessageType.Warning, words))

    def opened(self, uri: str) -> None:
        """A file was opened, saved, or came up in another way."""
        path = path_in(self.root, uri)
        if path is not None:
            self._files[uri] = path
            self.refresh(uri)

    def changed(self, uri: str) -> None:
        """The buffer changed; where things stand is said again when it is quiet."""
        if uri in self._files and self._loop is not None:
            if (waiting := self._waiting.get(uri)) is not None:
                waiting.cancel()
            self._waiting[uri] = self._loop.call_later(_PAUSE, self.refresh, uri)

    def closed(self, uri: str) -> None:
        """Nothing is shown about a file that is not open."""
        self._shown.pop(uri, None)
        self._published.pop(uri, None)
        if self._files.pop(uri, None) is not None:
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def path(self, uri: str) -> str | None:
        """What the workspace calls a file, None where it is not in it."""
        return self._files.get(uri) or path_in(self.root, uri)

    def refresh(self, uri: str) -> None:
        """Say anew what is known of a file, and once more if it moves meanwhile."""
        if uri not in self._files:
            return
        if uri in self._refreshing:
            self._again.add(uri)
            return
        task = asyncio.ensure_future(self._tell_known(uri))
        self._refreshing[uri] = task
        task.add_done_callback(lambda _: self._refreshed(uri))

    def _refreshed(self, uri: str) -> None:
        self._refreshing.pop(uri, None)
        if uri in self._again:
            self._again.discard(uri)
            self.refresh(uri)

    async def _tell_known(self, uri: str) -> None:
        editor, path = self.editor(), self._files[uri]
        known = await self.answer(lambda workspace: editor.known(workspace, path), None)
        here = editor.files.get(path)
        if known is None or here is None or uri not in self._files:
            return
        found = answers.diagnostics(editor, known)
        self._publish(types.PublishDiagnosticsParams(uri, found, version=here.version))
        if self._shown.get(uri) != known.notes:
            self._shown[uri] = known.notes
            self._refresh_lenses()

    def _refresh_lenses(self) -> None:
        can = self.client_capabilities.workspace
        if can and can.code_lens and can.code_lens.refresh_support:
            self.workspace_code_lens_refresh(None)

    async def follow(self) -> None:
        """Be told of what changes, by the service and by its successors."""
        self._loop = asyncio.get_running_loop()
        # A question starts the service where none runs, so that there is one to follow.
        await self.answer(lambda workspace: workspace.agent_list(), None)
        self._following = await asyncio.to_thread(
            Following, self.root, self._happened, lambda _: None
        )
        self.refresh_all()

    def _happened(self, event: dict[str, Any]) -> None:
        """Called on the thread that follows the service."""
        assert self._loop is not None
        if event["event"] == "missed":
            self._loop.call_soon_threadsafe(self.refresh_all)
        elif event["event"] in _FOLLOWED:
            self._loop.call_soon_threadsafe(self._moved, event["path"])

    def _moved(self, path: str) -> None:
        for uri, open_path in self._files.items():
            if open_path == path:
                self.refresh(uri)

    def refresh_all(self) -> None:
        """Say anew what is known of everything that is open."""
        for uri in list(self._files):
            self.refresh(uri)

    def stop_following(self) -> None:
        """Stop listening to the service."""
        if self._following is not None:
            self._following.close()
            self._following = None


def _words(error: MerkleError) -> str:
    hint = f"\n{error.hint}" if error.hint else ""
    return "\n".join(on_screen(line) for line in f"merkle: {error.message}{hint}".split("\n"))


def _register(server: Server) -> None:
    """Tie every question to its answer."""

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        server.choose_workspace(params)
        server.notice_options(params.initialization_options)

    @server.feature(types.INITIALIZED)
    async def initialized(params: types.InitializedParams) -> None:
        await server.follow()

    @server.feature(types.SHUTDOWN)
    def shutdown(*_: Any) -> None:
        server.stop_following()

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        server.opened(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def did_save(params: types.DidSaveTextDocumentParams) -> None:
        server.opened(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        server.changed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        server.closed(params.text_document.uri)

    async def about(uri: str, work: Callable[[Editor, Workspace, str], T], otherwise: T) -> T:
        editor, path = server.editor(), server.path(uri)
        if path is None:
            return otherwise
        return await server.answer(lambda workspace: work(editor, workspace, path), otherwise)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(params: types.HoverParams) -> Any:
        def work(editor: Editor, workspace: Workspace, path: str) -> types.Hover | None:
            return answers.hover(editor, workspace, path, params.position)

        return await about(params.text_document.uri, work, None)

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    async def lenses(params: types.CodeLensParams) -> Any:
        return await about(params.text_document.uri, answers.lenses, [])

    offered = types.CodeActionOptions(
        code_action_kinds=[types.CodeActionKind.QuickFix, answers.COPY]
    )

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, offered)
    async def actions(params: types.CodeActionParams) -> Any:
        def work(editor: Editor, workspace: Workspace, path: str) -> list[types.CodeAction]:
            only = params.context.only
            kinds = None if only is None else [getattr(kind, "value", kind) for kind in only]
            return answers.actions(editor, workspace, path, params.range, kinds)

        return await about(params.text_document.uri, work, [])

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    async def symbols(params: types.DocumentSymbolParams) -> Any:
        return await about(params.text_document.uri, answers.document_symbols, [])

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    async def definition(params: types.DefinitionParams) -> Any:
        def work(editor: Editor, workspace: Workspace, path: str) -> list[types.Location]:
            return answers.definitions(editor, workspace, path, params.position)

        return await about(params.text_document.uri, work, [])

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    async def references(params: types.ReferenceParams) -> Any:
        def work(editor: Editor, workspace: Workspace, path: str) -> list[types.Location]:
            declared = params.context.include_declaration
            return answers.references(editor, workspace, path, params.position, declared)

        return await about(params.text_document.uri, work, [])

    @server.feature(types.WORKSPACE_SYMBOL)
    async def find(params: types.WorkspaceSymbolParams) -> Any:
        editor = server.editor()
        return await server.answer(
            lambda workspace: answers.workspace_symbols(editor, workspace, params.query), []
        )

    _register_commands(server)


def _register_commands(server: Server) -> None:
    """The commands; each takes one object."""

    def given(arguments: Any, *names: str) -> dict[str, Any]:
        try:
            return commands.argument(arguments, *names)
        except MerkleError as error:
            raise RefusedError(_words(error)) from error

    def tell(words: str) -> None:
        shown = "\n".join(on_screen(line) for line in words.split("\n"))
        server.window_show_message(types.ShowMessageParams(types.MessageType.Info, shown))

    @server.command(commands.STILL_TRUE)
    async def still_true(*arguments: Any) -> str:
        asked = given(arguments, "frame_id")
        return await server.write(
            asked["frame_id"], lambda workspace, agent: commands.confirm(workspace, agent, asked)
        )

    @server.command(commands.REPLACE)
    async def replace(*arguments: Any) -> str | None:
        asked = given(arguments, "frame_id")
        text = asked.get("text")
        if not isinstance(text, str):
            # The protocol has no way to ask a person for a text.
            tell(commands.how_to_replace(asked))
            return None
        return await server.write(
            asked["frame_id"],
            lambda workspace, agent: commands.replace(workspace, agent, asked, text),
        )

    @server.command(commands.DELETE)
    async def delete(*arguments: Any) -> str:
        asked = given(arguments, "frame_id")
        return await server.write(
            asked["frame_id"], lambda workspace, agent: commands.withdraw(workspace, agent, asked)
        )

    @server.command(commands.SHOW)
    async def show(*arguments: Any) -> str:
        asked, editor = given(arguments, "path"), server.editor()
        wanted = [one for one in asked.get("frame_ids") or () if isinstance(one, str)]
        text = await server.do(
            lambda workspace: answers.notes_text(editor, workspace, asked["path"], wanted)
        )
        tell(text)
        return text

    @server.command(commands.COMPOSE)
    async def compose(*arguments: Any) -> Any:
        asked, editor = given(arguments, "uri"), server.editor()
        path = server.path(asked["uri"])
        return await server.do(lambda workspace: _composed(editor, workspace, path, asked))


def _composed(
    editor: Editor, workspace: Workspace, path: str | None, asked: dict[str, Any]
) -> commands.Context:
    if path is None:
        raise commands.BadCommandError(
            "the file is not in the workspace", hint="open a file of the workspace"
        )
    known = editor.known(workspace, path)
    budget = asked.get("budget", commands.BUDGET)
    start, end = _position(asked, "start"), _position(asked, "end")
    if not isinstance(budget, int) or budget < 1 or (start is None) != (end is None):
        raise commands.BadCommandError(
            "the range or the budget is not understood",
            hint="give `range` as the protocol has it, and `budget` as a number of tokens",
        )
    if start is None or end is None:
        return commands.compose(workspace, known, None, 0, budget)
    # What ends at the beginning of a line does not have that line in it.
    last = end.line - (end.character == 0 and end.line > start.line)
    return commands.compose(
        workspace, known, (start.line, last), editor.column(known, start), budget
    )


def _position(asked: dict[str, Any], name: str) -> types.Position | None:
    given = asked.get("range")
    found = given.get(name) if isinstance(given, dict) else asked.get("position")
    if not isinstance(found, dict):
        return None
    line, character = found.get("line"), found.get("character")
    if not isinstance(line, int) or not isinstance(character, int) or min(line, character) < 0:
        return None
    return types.Position(line, character)
