"""`merkle callees`."""

from __future__ import annotations

from indexer.cli.code_text import limit_option, show_edges, sure_option, symbol_argument
from indexer.cli.options import Globals, merkle_command
from indexer.service.workspace import Workspace


@merkle_command("callees")
@symbol_argument
@sure_option(Workspace.callees)
@limit_option(Workspace.callees)
def command(options: Globals, symbol: str, sure: str, limit: int) -> int:
    """List what SYMBOL calls, as far as it is defined in the workspace.

    SYMBOL is a name, Type.name, or PATH::name. Each line says how sure it is: `exact` where the
    file itself says it, `import` where an import does, `unique` where only one symbol has that
    name, `name` where several have.

    \b
    Example:
      merkle callees load --sure import
    """
    return show_edges(
        options,
        lambda workspace: workspace.callees(symbol, sure=sure, limit=limit),
        by="target",
    )
