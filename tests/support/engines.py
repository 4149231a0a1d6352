"""An open workspace on which tests call operations as methods, by the names they have in Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from indexer.core.arguments import FILE, alternatives
from indexer.engine import workspace
from indexer.engine.long_work import run_to_end
from indexer.engine.tree.scan import reconcile, tree_as_on_disk
from indexer.errors import MalformedError
from indexer.service.operations import OPERATIONS, Operation

_NAMED: dict[str, Operation] = {
    **{one.name: one for one in OPERATIONS.values() if not one.module.startswith("sessions.")},
    **{name.replace("-", "_"): one for name, one in OPERATIONS.items()},
}
_OTHERS: dict[str, Callable[..., Any]] = {
    "reconcile": reconcile,
    "tree_as_on_disk": tree_as_on_disk,
}


def _check(operation: Operation, bound: inspect.BoundArguments) -> None:
    """Words that a client could not send are refused here too: functions rely on that."""
    given = {name: value for name, value in bound.arguments.items() if value is not None}
    for name, shape in operation.known.items():
        schema = shape.schema
        spelled = "enum" in str(schema) or "pattern" in schema or schema.get("minimum", 0) > 0
        if name in given and spelled and shape is not FILE and not shape.fits(given[name]):
            raise MalformedError(f"{name} must be {shape.words}")
    chosen = alternatives(operation.function)
    if chosen and sum(name in given for name in chosen) != 1:
        raise MalformedError(f"exactly one is needed of: {', '.join(chosen)}")


class Engine(workspace.Engine):
    """The engine itself: an operation that it does not have as a method is looked up by name."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operation, other = _NAMED.get(name.removeprefix("begin_")), _OTHERS.get(name)
        if operation is None and other is None:
            raise AttributeError(name)

        def call(*arguments: Any, **named: Any) -> Any:
            if operation is None:
                assert other is not None
                return other(self, *arguments, **named)
            _check(operation, inspect.signature(operation.function).bind(self, *arguments, **named))
            done = operation.function(self, *arguments, **named)
            whole = operation.in_steps and not name.startswith("begin_")
            return run_to_end(done) if whole else done

        return call
