"""Runs tests that are written elsewhere, with fixtures of their own each time."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from types import ModuleType
from typing import Any

import pytest

Shows = Callable[..., Any]


def run(test: Shows, request: pytest.FixtureRequest, *fixtures: ModuleType) -> None:
    """Run a test for every set of its parameters, with fixtures of its module or of these."""
    if hasattr(test, "hypothesis"):
        test()
        return
    places = (sys.modules[test.__module__], *fixtures)
    for parameters in _parameters(test):
        made = dict(parameters)
        for name in inspect.signature(test).parameters:
            _make(name, made, places, request)
        test(**{name: made[name] for name in inspect.signature(test).parameters})


def _make(
    name: str,
    made: dict[str, Any],
    places: tuple[ModuleType, ...],
    request: pytest.FixtureRequest,
) -> Any:
    if name not in made:
        found = next((getattr(place, name) for place in places if hasattr(place, name)), None)
        if found is None:
            made[name] = request.getfixturevalue(name)
        else:
            function = found._get_wrapped_function()
            wanted = inspect.signature(function).parameters
            made[name] = function(**{one: _make(one, made, places, request) for one in wanted})
    return made[name]


def _parameters(test: Shows) -> Iterator[Mapping[str, Any]]:
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    sets = [list(_sets(*mark.args[:2])) for mark in marks]
    for chosen in product(*sets):
        yield {name: value for one in chosen for name, value in one.items()}


def _sets(names: str | tuple[str, ...], values: Any) -> Iterator[dict[str, Any]]:
    listed = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    for value in values:
        given = value.values if hasattr(value, "marks") else value
        single = len(listed) == 1 and not hasattr(value, "marks")
        yield dict(zip(listed, (given,) if single else given, strict=True))
