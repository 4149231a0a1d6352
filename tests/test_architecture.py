"""The shape of the package: who may import what, and what every module has."""

from __future__ import annotations

import ast
import graphlib
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from indexer.service.operations import OPERATIONS
from indexer.service.signatures import methods

PACKAGE = Path(__file__).parent.parent / "indexer"
MODULES = sorted(PACKAGE.rglob("*.py"))

# From the top down; a package may import what stands on a lower line.
LAYERS = (
    ("cli", "lsp", "mcp", "web"),
    ("service",),
    ("engine",),
    ("regenerate", "synthesis", "compose", "sessions", "compiler"),
    ("scan", "watch", "store", "generators", "shared"),
    ("core", "errors"),
)
PURE = LAYERS[3]
FOUNDATION = LAYERS[-1]

# Neighbours on one line that may know each other: importer, imported, why.
NEIGHBOURS = {
    ("cli", "web"): "`watch --web` hands the page to the service",
    ("core", "errors"): "a noun refuses bad input with the one base class of errors",
    ("cli", "lsp"): "a command serves an editor",
    ("cli", "mcp"): "a command serves agents, and enters the server into their configuration",
    ("regenerate", "synthesis"): "regenerating a folder's frame plans a synthesis",
    ("compose", "compiler"): "a composition ends in the staged compiler",
    ("sessions", "compiler"): "a session's messages end in the staged compiler",
}

# Libraries with one home; whoever else wants what they do asks that package.
HOMES = {
    "anyio": {"mcp", "service"},
    "click": {"cli"},
    "_duckdb": {"store"},
    "duckdb": {"store"},
    "lsprotocol": {"lsp"},
    "mcp": {"mcp"},
    "mcp_types": {"mcp"},
    "jinja2": {"web"},
    "markdown_it": {"web"},
    "markupsafe": {"web"},
    "openai": {"generators"},
    "psycopg": {"shared"},
    "pygls": {"lsp"},
    "starlette": {"service", "web", "mcp"},
    "tiktoken": {"core"},
    "tree_sitter": {"generators"},
    "uvicorn": {"service", "web", "mcp"},
    "watchdog": {"watch"},
    "xxhash": {"core"},
}

# Imports inside a function, each for a command that must start fast or a part that is optional.
LATE = {
    "cli.autostart": {"indexer.service.served"},  # few commands start another process
    "cli.doctor": {"indexer.engine.durable.repair"},  # a missing package is to be reported
    "cli.failures": {"traceback"},  # only for a mistake of ours
    # only for a command that does not exist; only where a workspace was opened here
    # and only for a shell that completes
    "cli.group": {"difflib", "indexer.cli.autostart", "indexer.cli.completing"},
    "cli.index_checks": {
        "indexer.engine.frames.opened",
        "indexer.engine.frames.types",
        "indexer.store.database",
        "indexer.store.trees",
    },  # only `doctor`
    # an interrupt during start-up ends quietly; a command that is handed over needs nothing else,
    # and a service's first look goes before the option parser
    "cli.main": {"indexer.cli.group", "indexer.cli.thin", "indexer.service.ahead", "pathlib"},
    "cli.lsp": {"indexer.lsp.run"},  # the protocol's library loads slowly
    "cli.mcp": {"indexer.mcp.calls", "indexer.mcp.run"},  # the protocol's library loads slowly
    "cli.models": {"indexer.engine.models.settings"},  # only where a model was called
    "cli.team_checks": {
        "indexer.engine.team.exchange",
        "indexer.shared.base",
        "indexer.shared.client",
        "indexer.shared.masking",
        "indexer.shared.seal",
    },  # most workspaces have no team
    "cli.progress": {"shutil"},  # only for a terminal, whose columns it knows
    "cli.units": {"plistlib"},  # only for launchd
    "cli.watch": {
        "indexer.service.ahead",  # before, and beside which, the rest is loaded
        "indexer.service.run",
        "indexer.service.served",  # only with --background
        "indexer.store.memory",  # only the service itself
        "indexer.watch.debounce",  # only the service itself
        "indexer.web.application",  # only with its page
        "webbrowser",  # only with --open
    },
    "": {"importlib"},  # a command that is handed over to a service does without
    "compiler.plugins": {"importlib.metadata"},  # entry points are looked up on demand
    "compose.ordering": {"importlib.metadata"},  # entry points are looked up on demand
    "core.encodings": {"tiktoken", "tiktoken.model"},  # the rank tables take long to load
    # most workspaces and packs have no session
    "engine.durable.adopt": {"indexer.engine.sessions.packs"},
    "engine.durable.packs": {"indexer.engine.sessions.packs"},
    "engine.durable.records": {
        "indexer.compose.manifest",  # most workspaces have no manifest either
        "indexer.engine.search.manifests",
        "indexer.engine.sessions.packs",
    },
    # only where the file of a generated frame is gone
    "engine.frames.states": {"indexer.engine.search.manifests"},
    "engine.durable.salvage": {"indexer.engine.sessions"},
    # most workspaces declare no model
    "engine.frames.types": {"indexer.engine.models.settings", "indexer.generators.llm.options"},
    "engine.make.plan": {"indexer.engine.models.settings", "indexer.generators.llm.writer"},
    "engine.make.run": {
        "indexer.engine.models.calls",
        "indexer.engine.models.model_pass",
        "indexer.engine.models.settings",
    },
    "engine.models.prompt_files": {"indexer.generators.llm.prompts"},
    "engine.models.settings": {
        "indexer.generators.llm.budget",
        "indexer.generators.llm.client",
    },
    "engine.team.memo": {"indexer.engine.models.calls", "indexer.engine.models.intake"},
    # only where such a process is started
    "engine.make.processes": {"concurrent.futures", "pickle", "queue", "subprocess"},
    "engine.search.corpus": {"indexer.engine.search.stored_corpus"},  # a service does without
    "engine.durable.validate": {
        "indexer.engine.durable.code_checks",  # many workspaces have nothing but files
        "indexer.engine.durable.frame_checks",
        "indexer.engine.durable.session_checks",
    },
    # most workspaces have no such file; only `config` shows an address
    "engine.settings": {"tomllib", "indexer.shared.masking"},
    "engine.tree.resolve": {"difflib"},  # only for a node that does not exist
    "engine.tree.scan": {"indexer.engine.frames.carrying"},  # most batches rename nothing
    # only `status`: a scan needs nothing of frames
    "engine.tree.unchanged": {"indexer.core.tokens", "indexer.engine.frames.types"},
    # what a scan needs nothing of
    "engine.workspace": {
        "indexer.core.tokens",
        "indexer.engine.code.questions",
        "indexer.engine.durable.journal",
        "indexer.engine.frames.coverage",
        "indexer.engine.frames.note_labels",
        "indexer.engine.frames.opened",
        "indexer.engine.models.intake",
        "indexer.engine.search.corpus",
        "indexer.engine.sessions.open_sessions",
        "indexer.engine.team",
    },
    "generators.llm.client": {"email.utils"},  # few servers say a date to ask again at
    "generators.registry": {"importlib.metadata"},  # entry points are looked up on demand
    "generators.installed": {"importlib.metadata"},  # it is what this does without
    "scan.hashpool": {"concurrent.futures"},  # most files are in the page cache
    "service.maintainer": {
        "indexer.engine.durable.compact",  # only with nothing else to do
        "indexer.engine.team.courier",  # most workspaces have no team
        "indexer.engine.team.notes",
        "indexer.shared.client",
    },
    # while commands are loaded that ask it
    "service.run": {"asyncio", "indexer.service.ready_process", "indexer.service.serving"},
    "service.server": {"indexer.service.ctree_events"},  # only where a session changes
    # a client of a service needs no database, and looks at nothing itself
    "service.workspace": {
        "indexer.engine.durable",
        "indexer.engine.owned",
        "indexer.engine.tree.unchanged",
        "indexer.engine.workspace",
        "indexer.service.following",
        "random",  # only where a service has just stopped
    },
    "service.writing_thread": {
        "indexer.engine.durable.validate",  # only after a failure
        "indexer.service.maintainer",  # once nobody waits for the first answer
    },
    "service.whose_socket": {"hashlib"},  # only where a service has run
    "store.journal": {"shutil"},  # only where another is put in its place
    "store.lock": {"random"},  # only where it is not free
    "store.memory": {"ctypes"},  # only the service itself
    "store.binding": {"subprocess"},  # only where git was used since it was asked last
    "shared.opening": {"indexer.shared.postgres", "indexer.shared.sqlite"},  # one per address
    "watch.watcher": {"indexer.watch.inotify", "indexer.watch.observer"},  # one per system
}

GRAB_BAGS = {"utils", "util", "helpers", "helper", "common", "misc", "shared_code", "tools"}
LONGEST = 500
LONG = {
    "store.frames": "everything about frames in the database",
    "engine.code.graph": "what a name means, one way after the other",
    "service.writing_thread": "looking, watching, and trouble with either, on one thread",
    "scan.shared_walk": "what processes that share a walk do, and what they tell each other",
    "service.methods": "written by a program, one method per operation",
}
"""Modules that are longer, and what it is that would be cut in two."""

WHOLE = {
    "tree.scan.record_everything": "looks, carries notes, records and tells",
    "tree.scan.reconcile": "the same, of some paths",
    "tree.scan.bring_up_to_date": "looks again, unless a service does",
    "tree.scan.look_at_files": "lets a service look, or looks",
    "tree.scan.tree_as_on_disk": "looks again, unless a service does",
    "tree.status.present_status": "opens frames after the look, and keeps what it counted",
    "tree.line_changes.line_changes": "reads the present as a question does",
    "frames.notes.written_documents": "looks again before it tells what is fresh",
    "make.commands._look": "scans before anything is made",
    "make.one_pass.one_pass": "puts a pass together",
    "make.run.Run.__init__": "begins passes of every kind",
    "sessions.labels.labels_of": "asks operations",
    "team.notes.note_exchange": "puts together what exchanges notes",
}
"""What takes the whole engine without being an operation, and why."""


class Import(NamedTuple):
    """One imported module, and where the import stands."""

    module: str
    late: bool
    typing_only: bool


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def dotted(path: Path) -> str:
    """`scan.walk` for indexer/scan/walk.py; empty for the package itself."""
    parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def box(path: Path) -> str:
    return dotted(path).partition(".")[0]


@cache
def imports(path: Path) -> tuple[Import, ...]:
    return tuple(_imports(parsed(path), late=False, typing_only=False))


def _imports(node: ast.AST, *, late: bool, typing_only: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, late, typing_only)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "relative imports hide what is imported"
            assert child.module is not None
            if child.module == "indexer":
                for alias in child.names:
                    yield Import(f"indexer.{alias.name}", late, typing_only)
            else:
                yield Import(child.module, late, typing_only)
        else:
            inside = late or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            checking = typing_only or _is_type_checking(child)
            yield from _imports(child, late=inside, typing_only=checking)


def _is_type_checking(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )


def layer(name: str) -> int:
    return next(number for number, names in enumerate(LAYERS) if name in names)


def ours(path: Path) -> list[tuple[str, Import]]:
    """The boxes a module imports, its own left out."""
    found = []
    for each in imports(path):
        parts = each.module.split(".")
        if parts[0] == "indexer" and len(parts) > 1 and parts[1] != box(path):
            found.append((parts[1], each))
    return found


def test_every_package_has_a_place_in_the_layers() -> None:
    known = {name for names in LAYERS for name in names}
    assert {box(path) for path in MODULES} - {""} <= known


def test_imports_point_downward() -> None:
    upward = [
        f"{dotted(path)} imports {each.module}"
        for path in MODULES
        for name, each in ours(path)
        if box(path) and name != "__version__"
        if layer(name) <= layer(box(path)) and (box(path), name) not in NEIGHBOURS
    ]
    assert not upward


def test_any_module_can_be_the_first_to_be_loaded() -> None:
    """No imports in a circle, whose order would decide whether they work."""
    modules = {f"indexer.{dotted(path)}".rstrip("."): path for path in MODULES}
    needs: dict[str, set[str]] = {}
    for name, path in modules.items():
        found = {e.module for e in imports(path) if not e.late and not e.typing_only}
        for node in parsed(path).body:
            if isinstance(node, ast.ImportFrom):
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
        # A module's package is loaded before it, except by what is in that package itself.
        found |= {".".join(m.split(".")[:n]) for m in found for n in range(1, m.count(".") + 1)}
        outside = {each for each in found if not f"{name}.".startswith(f"{each}.")}
        needs[name] = outside & modules.keys()
    graphlib.TopologicalSorter(needs).prepare()


def test_the_package_itself_imports_nothing_at_start() -> None:
    assert not [each for _, each in ours(PACKAGE / "__init__.py") if not each.typing_only]


def test_pure_packages_know_no_machine() -> None:
    machine = {"os", "pathlib", "socket", "subprocess", "threading", "time", "random", "tempfile"}
    pure = [path for path in MODULES if box(path) in PURE]
    impure = [
        f"{dotted(path)} imports {each.module}"
        for path in pure
        for each in imports(path)
        if each.module.partition(".")[0] in machine
    ]
    impure += [
        f"{dotted(path)} imports {each.module}"
        for path in pure
        for name, each in ours(path)
        if name not in (*FOUNDATION, *PURE)
    ]
    assert not impure


def test_libraries_have_one_home() -> None:
    strays = []
    for path in MODULES:
        for each in imports(path):
            library = each.module.partition(".")[0]
            homes = HOMES.get("tree_sitter" if library.startswith("tree_sitter") else library)
            if homes is None and library not in sys.stdlib_module_names | {"indexer"}:
                strays.append(f"{dotted(path)} imports {library}, which has no home in this test")
            elif homes is not None and box(path) not in homes:
                strays.append(f"{dotted(path)} imports {library}, at home in {sorted(homes)}")
    assert not strays


def test_imports_inside_functions_are_named_here() -> None:
    late = {
        dotted(path): found
        for path in MODULES
        if (found := {e.module for e in imports(path) if e.late and not e.typing_only})
    }
    assert late == LATE


def test_modules_are_of_readable_length() -> None:
    lengths = {dotted(path): len(path.read_text("utf-8").splitlines()) for path in MODULES}
    assert {name for name, length in lengths.items() if length > LONGEST} == set(LONG)


def test_only_operations_take_the_whole_engine() -> None:
    operations = {f"{one.module}.{one.name}" for one in OPERATIONS.values()}
    taking = {
        f"{dotted(path).removeprefix('engine.')}.{name}"
        for path in MODULES
        if box(path) == "engine"
        for name, function in _functions(parsed(path))
        if "Engine" in _annotated(function)
    }
    assert taking - operations == set(WHOLE)


def _functions(node: ast.AST, around: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield around + child.name, child
        inside = isinstance(child, ast.FunctionDef | ast.ClassDef)
        yield from _functions(child, f"{around}{child.name}." if inside else around)


def _annotated(function: ast.FunctionDef) -> set[str]:
    """The names in what is said of a function's parameters."""
    given = function.args
    said = [one.annotation for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return {
        word
        for annotation in said
        if annotation is not None
        for word in re.findall(r"\w+", ast.unparse(annotation))
    }


def test_modules_are_named_for_what_they_do() -> None:
    assert not [path for path in MODULES if GRAB_BAGS & {path.stem, path.parent.name}]


def test_nobody_asks_whether_it_runs_under_test() -> None:
    assert not [path for path in MODULES if "PYTEST_" in path.read_text("utf-8")]


def test_public_things_say_what_they_are() -> None:
    missing = [dotted(path) for path in MODULES if not ast.get_docstring(parsed(path))]
    missing += [
        f"{dotted(path)}.{name}"
        for path in MODULES
        for name, node in _public(parsed(path))
        if not ast.get_docstring(node)
    ]
    assert not missing


_Documented = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _public(node: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, _Documented]]:
    for child in node.body:
        if not isinstance(child, _Documented) or child.name.startswith("_"):
            continue
        if any(isinstance(d, ast.Attribute) and d.attr == "setter" for d in child.decorator_list):
            continue
        yield prefix + child.name, child
        if isinstance(child, ast.ClassDef):
            yield from _public(child, f"{prefix}{child.name}.")


def test_the_methods_of_a_workspace_say_what_the_operations_say() -> None:
    written = (PACKAGE / "service" / "methods.py").read_text("utf-8")
    assert written == methods(), "run `just docs`"


def test_the_map_names_what_there_is() -> None:
    page = (PACKAGE.parent / "ARCHITECTURE.md").read_text("utf-8")
    named = set(re.findall(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)`", page))
    assert len(named) > 50
    assert not [
        name
        for name in sorted(named)
        if not any((top / name).is_file() for top in (PACKAGE, PACKAGE.parent))
    ]
    rooms = {path.name for path in (PACKAGE / "engine").iterdir() if path.is_dir()} - {
        "__pycache__"
    }
    assert all(f"\n{room}/ " in page for room in rooms)


def test_the_glossary_is_short() -> None:
    page = (PACKAGE.parent / "ARCHITECTURE.md").read_text("utf-8")
    words = page.split("## Words\n")[1].split("\n## ")[0]
    assert len(words.strip().splitlines()) <= 30
