"""Writes the methods of `Workspace` from the operations: `python -m indexer.service.signatures`.

People read and complete these methods, so they stand in a file; that it says what the operations
say is held by a test.
"""

from __future__ import annotations

import inspect
import keyword
import textwrap
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from indexer.core.arguments import FILE, of_annotation
from indexer.service.operations import OPERATIONS, Operation, evaluated

TARGET: Final = Path(__file__).with_name("methods.py")
WIDTH: Final = 100
METHODS: Final = {"agents": "agent_list"}
"""What a method is called where it is not called after its operation."""

_HEAD: Final = '''"""The operations as methods, written by `python -m indexer.service.signatures`.

Each passes its arguments on by name; what they mean is said where the operation is.
"""
# What an operation gives is known by its declaration alone.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
{imports}

JsonObject = dict[str, Any]


class Methods(ABC):
    """One method per operation, for whoever can run an operation by name."""

    @abstractmethod
    def _operate(self, name: str, values: dict[str, Any]) -> Any:
        """Run an operation here, or in the service."""
'''


def method_name(name: str) -> str:
    """What the method of an operation is called."""
    plain = METHODS.get(name, name.replace("-", "_"))
    return plain + "_" if keyword.iskeyword(plain) else plain


def methods() -> str:
    """The whole module."""
    answers: dict[str, set[str]] = {}
    parts = []
    for name, operation in OPERATIONS.items():
        parts.append(_method(name, operation))
        for document in operation.signature.documents:
            answers.setdefault(document.__module__, set()).add(document.__name__)
    imports = [_import(home, sorted(names)) for home, names in answers.items()]
    return "\n".join([_HEAD.format(imports="\n".join(sorted(imports))), *parts])


def _import(home: str, names: list[str]) -> str:
    line = f"    from {home} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return line
    listed = "".join(f"        {name},\n" for name in names)
    return f"    from {home} import (\n{listed}    )"


def _method(name: str, operation: Operation) -> str:
    function = operation.function
    gives = " | ".join(document.__name__ for document in operation.signature.documents)
    said = textwrap.indent(f'"""{inspect.cleandoc(function.__doc__ or "")}', " " * 8)
    said += '\n        """' if "\n" in said else '"""'
    # A blank line keeps no white space.
    said = "\n".join(line.rstrip() for line in said.splitlines())
    head = _signature(f"    def {method_name(name)}", list(_parameters(function)), gives)
    call = f'return self._operate("{name}", locals())'
    return f"{head}\n{said}\n        {call}\n"


def _signature(start: str, parameters: list[str], gives: str) -> str:
    """On one line, or the parameters on one, or each on its own, as the formatter has it."""
    line = f"{start}({', '.join(parameters)}) -> {gives}:"
    if len(line) <= WIDTH:
        return line
    inner = f"        {', '.join(parameters)}"
    if len(inner) > WIDTH:
        inner = "\n".join(f"        {one}," for one in parameters)
    return f"{start}(\n{inner}\n    ) -> {gives}:"


def _parameters(function: Callable[..., Any]) -> Iterator[str]:
    yield "self"
    starred = False
    for name, found in inspect.signature(function).parameters.items():
        if name == "engine":
            continue
        if found.kind is found.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        if name == "progress":
            yield "progress: Callable[[int], None] | None = None"
            continue
        default = "" if found.default is found.empty else f" = {_spelled(found.default)}"
        yield f"{name}: {_annotated(function, found.annotation)}{default}"


def _annotated(function: Callable[..., Any], annotation: str) -> str:
    """As people read it: plain types, without what only a check needs."""
    value = evaluated(function, annotation)
    optional = " | None" if type(None) in typing.get_args(value) else ""
    if of_annotation(value) is FILE:
        return f"str | os.PathLike[str]{optional}"
    inner = next((one for one in typing.get_args(value) if one is not type(None)), value)
    for noted in (inner, value):
        if hasattr(noted, "__metadata__"):
            plain = noted.__origin__
            # A list is spelled with what is in it.
            held = "".join(f"[{one.__name__}]" for one in typing.get_args(plain))
            return f"{plain.__name__}{held}{optional}"
    return annotation


def _spelled(default: Any) -> str:
    return repr(default).replace("'", '"')


if __name__ == "__main__":
    TARGET.write_text(methods(), encoding="utf-8")
