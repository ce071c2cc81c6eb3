"""What commands print: tables that read well in 80 columns, and JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from harmonics_emu.errors import RunFailed

PIPE_WIDTH = 80
"""Where the output is no terminal, which has no width of its own."""
MAX_WIDTH = 120


def print_rich(renderable: RenderableType) -> None:
    """Print to stdout, no wider than people read well, and without colours where it is no terminal."""
    console = Console(highlight=False)
    console.width = min(console.width, MAX_WIDTH) if console.is_terminal else PIPE_WIDTH
    with _said_if_full():
        console.print(renderable)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A plain table: columns of numbers to the right, others to the left and folded where long. None becomes '-'."""
    texts = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for index, column in enumerate(columns):
        numbers = bool(texts) and all(row[index][:1].isdigit() or row[index] == "-" for row in texts)
        table.add_column(Text(column), justify="right" if numbers else "left", overflow="fold", no_wrap=numbers)
    for cells in texts:
        table.add_row(*map(Text, cells))
    print_rich(table)


def print_json(value: Any) -> None:
    """JSON for programs: `value`, or text that is JSON already (bytes)."""
    with _said_if_full():
        if isinstance(value, bytes):
            click.echo(value.decode(), nl=not value.endswith(b"\n"))
        else:
            click.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


@contextmanager
def _said_if_full() -> Iterator[None]:
    """One line where stdout is a file that can't be written to; a reader that has gone is click's business."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise RunFailed(f"cannot write the output: {error.strerror}") from None
