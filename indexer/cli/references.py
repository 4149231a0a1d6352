"""`merkle references`."""

from __future__ import annotations

from indexer.cli.code_text import limit_option, show_edges, sure_option, symbol_argument
from indexer.cli.options import Globals, merkle_command
from indexer.service.workspace import Workspace


@merkle_command("references")
@symbol_argument
@sure_option(Workspace.references)
@limit_option(Workspace.references)
def command(options: Globals, symbol: str, sure: str | None, limit: int) -> int:
    """List where SYMBOL is used, and inside of what.

    SYMBOL is a name, Type.name, or PATH::name. Each line says how sure it is: `exact` where the
    file itself says it, `import` where an import does, `unique` where only one symbol has that
    name, `name` where several have.

    \b
    Example:
      merkle references ReadingStore.add
    """
    return show_edges(
        options, lambda workspace: workspace.references(symbol, sure=sure, limit=limit)
    )
