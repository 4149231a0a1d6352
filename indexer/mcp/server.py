"""The protocol's side: tools and resources as the SDK wants them, errors as agents can use them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

import anyio.to_thread
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from indexer import __version__
from indexer.core.json_text import json_text
from indexer.core.paths import on_screen
from indexer.errors import MerkleError
from indexer.mcp.addresses import MANIFEST_TEMPLATE, NODE_TEMPLATE, node_address, parse_address
from indexer.mcp.calls import Calls
from indexer.mcp.declarations import BY_NAME, INSTRUCTIONS, TOOLS, Declaration

T = TypeVar("T")
Context = ServerRequestContext[Any]

_log: Final = logging.getLogger(__name__)
_JSON: Final = "application/json"
_LONGEST: Final = 1000
"""Characters of an error's message, and of its hint."""


def make_server(calls: Calls) -> Server[Any]:
    """A server for one workspace and one agent."""
    tools = [_tool(each) for each in TOOLS]

    async def list_tools(
        context: Context, parameters: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        context: Context, parameters: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            given = parameters.arguments or {}
            blocks = await _beside(lambda: calls.call(parameters.name, given))
        except MerkleError as error:
            return _refusal(error)
        except Exception as error:
            _log.exception("%s failed", parameters.name)
            return _refusal(_surprise(error))
        return types.CallToolResult(content=[_text(block) for block in blocks])

    async def list_resources(
        context: Context, parameters: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        root = types.Resource(
            name="workspace",
            uri=node_address(""),
            description="The workspace's root folder and what is known about it.",
            mime_type=_JSON,
        )
        return types.ListResourcesResult(resources=[root])

    async def list_templates(
        context: Context, parameters: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=_templates())

    async def read_resource(
        context: Context, parameters: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(parameters.uri)
        try:
            contents = await _beside(lambda: read(calls, uri))
        except MerkleError as error:
            problem = f"{error.message}; {error.hint}" if error.hint else error.message
            raise MCPError(types.INVALID_PARAMS, problem, {"uri": uri}) from error
        # Never to be kept: a label on something kept would be a lie the moment a file changes.
        return types.ReadResourceResult(contents=contents, ttl_ms=0)

    return Server(
        "merkle",
        version=__version__,
        instructions=INSTRUCTIONS,
        get_tool_input_schema=lambda name: BY_NAME[name].input_schema if name in BY_NAME else None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


def read(calls: Calls, uri: str) -> list[types.TextResourceContents | types.BlobResourceContents]:
    """What a resource holds: a node as get_node gives it, or a recorded manifest."""
    kind, name = parse_address(uri)
    if kind == "node":
        first, *texts = calls.call("get_node", {"node": f"path:{name}"})
    else:
        first, texts = json_text(calls.manifest(name)), []
    found = [(first, _JSON), *((text, "text/plain") for text in texts)]
    return [types.TextResourceContents(uri=uri, mime_type=mime, text=text) for text, mime in found]


async def _beside(work: Callable[[], T]) -> T:
    """Work on another thread, because it waits for the service; a client may leave meanwhile."""
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)


def _tool(declared: Declaration) -> types.Tool:
    hints = types.ToolAnnotations(
        read_only_hint=declared.reads_only,
        # Frames and blocks are only ever added; nothing is overwritten.
        destructive_hint=None if declared.reads_only else False,
    )
    return types.Tool(
        name=declared.name,
        description=declared.description,
        input_schema=declared.input_schema,
        annotations=hints,
    )


def _templates() -> list[types.ResourceTemplate]:
    return [
        types.ResourceTemplate(
            name="node",
            uri_template=NODE_TEMPLATE,
            description="A file or folder with the frames about it.",
            mime_type=_JSON,
        ),
        types.ResourceTemplate(
            name="manifest",
            uri_template=MANIFEST_TEMPLATE,
            description="A recorded composition, message for message.",
            mime_type=_JSON,
        ),
    ]


def _refusal(error: MerkleError) -> types.CallToolResult:
    """An error that says what to do next, in words alone: no client can drop or reject them."""
    hint = f"\nWhat to do: {_brief(error.hint)}" if error.hint else ""
    text = f"{_brief(error.message)}{hint}\n({error.code})"
    return types.CallToolResult(content=[_text(text)], is_error=True)


def _brief(words: str) -> str:
    """The words of an error, cut and made safe: they may repeat whatever a client sent."""
    # By way of JSON, in which bytes that are not UTF-8 get the text form that paths have.
    told: str = json.loads(json_text(words))
    return on_screen(told) if len(told) <= _LONGEST else f"{on_screen(told[:_LONGEST])}…"


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


def _surprise(error: Exception) -> MerkleError:
    return MerkleError(
        f"merkle failed in a way it should not: {type(error).__name__}: {error}",
        hint="report it with the traceback from this server's standard error",
    )
