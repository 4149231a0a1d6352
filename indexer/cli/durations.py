"""Options that are times, such as 30s, 10m, 2h or 30d."""

from __future__ import annotations

import click

from indexer.engine.settings import parse_duration


def duration(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Seconds of a time, or None where none was given."""
    if value is None:
        return None
    try:
        return parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def positive_duration(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> float | None:
    """Seconds of a time that must be more than zero, or None where none was given."""
    seconds = duration(ctx, param, value)
    if seconds == 0:
        raise click.BadParameter("the time must be more than nothing", ctx, param)
    return seconds
