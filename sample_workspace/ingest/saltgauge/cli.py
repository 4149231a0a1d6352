"""The command line: load files of sentences, show the surge at a station."""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from saltgauge.harmonics import MODELS
from saltgauge.push import push
from saltgauge.quality import check
from saltgauge.readings import Quantity
from saltgauge.sentences import SentenceError, parse_all
from saltgauge.store import ReadingStore
from saltgauge.surge import surge_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = build_parser().parse_args(arguments)
    store = ReadingStore(options.database)
    if options.command == "load":
        return load(store, options.file, options.gateway)
    return show_surge(store, options.station)


def build_parser() -> argparse.ArgumentParser:
    """Describe the commands and their options."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--database", type=Path, default=Path("saltgauge.db"))
    parser = argparse.ArgumentParser(prog="saltgauge", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    load_command = commands.add_parser("load", parents=[shared], help="load a file of sentences")
    load_command.add_argument("file", type=Path)
    load_command.add_argument("--gateway", metavar="URL", help="also send the readings there")
    surge_command = commands.add_parser("surge", parents=[shared], help="compare with the tables")
    surge_command.add_argument("station", choices=sorted(MODELS))
    return parser


def load(store: ReadingStore, file: Path, gateway: str | None = None) -> int:
    """Load a file and print what became of its lines."""
    rejected: list[SentenceError] = []
    with file.open(encoding="ascii") as lines:
        readings = list(check(parse_all(lines, rejected)))
    added = store.add(readings)
    if gateway:
        push(gateway, readings)
    marks = Counter(reading.quality.value for reading in readings)
    detail = ", ".join(f"{count} {name}" for name, count in sorted(marks.items()))
    print(f"{added} new of {len(readings)} readings ({detail})")
    for error in rejected:
        print(f"rejected: {error}", file=sys.stderr)
    return 1 if rejected else 0


def show_surge(store: ReadingStore, station: str) -> int:
    """Print the latest level of a station beside the predicted one."""
    level = store.latest(station, Quantity.LEVEL)
    if level is None:
        print(f"{station}: no level stored yet", file=sys.stderr)
        return 1
    surge = surge_of(level, MODELS[station])
    print(
        f"{station} {level.at:%Y-%m-%d %H:%M} measured {surge.measured:.2f} m,"
        f" predicted {surge.predicted:.2f} m, surge {surge.residual:+.2f} m ({surge.alarm.name})"
    )
    return 0
