"""`raygraph demo`: a real CPU-heavy graph (`examples/stdlib_census.py`), with its progress and its gain."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from raygraph.cli.problems import EXIT_FAILED, Problem, describe_failure, interruptible
from raygraph.cli.run import EXECUTORS

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table


@click.command()
@click.option("--executor", type=click.Choice(EXECUTORS), help="Where the nodes run.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N packages by name.")
@click.option("--top", type=click.IntRange(min=1), default=8, metavar="N", help="Rows per ranking (default 8).")
@click.option("--max-concurrency", type=click.IntRange(min=1), metavar="N", help="Tasks at the same time at most.")
@interruptible
def demo(executor: str | None, limit: int | None, top: int, max_concurrency: int | None) -> None:
    """Measure Python's standard library on all cores.

    One task per package parses its modules and measures every function. The results are merged into one
    ranking of the most complex and the longest functions, and of those that were written twice. It all takes
    some 10 to 20 seconds of CPU time. The last line is the digest of the result, the same on every executor.
    """
    from raygraph.examples import stdlib_census as census

    try:
        groups = census.packages(limit)
    except FileNotFoundError as error:
        raise Problem(str(error)) from None
    app = census.build().compile(executor=executor)
    config = {"max_concurrency": max_concurrency} if max_concurrency else {}
    events = app.stream({"groups": groups}, config, stream_mode=["updates"])
    try:
        with _progress(len(groups)) as advance:
            for _mode, update in events:
                if "measure" in update:
                    advance()
    except Exception as error:
        click.echo(describe_failure(error), err=True)
        sys.exit(EXIT_FAILED)
    report = events.report.output["report"]
    _print_report(report, top)
    click.echo("\n" + "\n".join(_gain(events.report)))
    click.echo(f"digest: {census.digest(report)}")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], None]]:
    """A live bar on a terminal, otherwise a line for every tenth of the way; on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain_progress(total)
        return
    columns = (
        TextColumn("measuring"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("tasks"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=total)
        yield lambda: bar.advance(task)


def _plain_progress(total: int) -> Callable[[], None]:
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        if 10 * done // total > 10 * (done - 1) // total:
            click.echo(f"measured {done} of {total}", err=True)

    return advance


def _print_report(report: dict[str, Any], top: int) -> None:
    from rich.console import Console

    from raygraph.examples import stdlib_census as census

    console = Console()
    if not console.is_terminal:
        for row in census.rows(report, top):
            click.echo(row)
        return
    totals = report["totals"]
    console.print(
        f"{totals['functions']} functions in {totals['modules']} modules of {totals['packages']} packages; "
        f"{totals['lines']} lines; complexity: mean {report['complexity']['mean']}, "
        f"median {report['complexity']['median']}, 99 % up to {report['complexity']['p99']}"
    )
    for table in _tables(report, top):
        console.print(table)


def _tables(report: dict[str, Any], top: int) -> Iterable[Table]:
    for title, entries in (("Most complex", report["most_complex"]), ("Longest", report["longest"])):
        rows = [(str(e["complexity"]), str(e["lines"]), e["function"]) for e in entries[:top]]
        yield _table(title, ("complexity", "lines", "function"), rows)
    duplicates = report["duplicates"]
    copies = [(str(len(group)), "\n".join(group[:4])) for group in duplicates["largest"][:top]]
    yield _table(f"Written twice: {duplicates['groups']} groups", ("copies", "function:line"), copies)


def _table(title: str, columns: tuple[str, ...], rows: Iterable[Sequence[str]]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in columns[:-1]:
        table.add_column(column, justify="right")
    table.add_column(columns[-1], overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def _gain(report: Any) -> Iterator[str]:
    """What the run took, and how many cores it kept busy."""
    places = f"{len(report.workers)} process{'es' * (len(report.workers) > 1)}"
    yield f"wall time {report.wall:.2f} s, from the start of the executor to the result"
    yield f"CPU time of the {report.tasks} tasks {report.cpu:.2f} s, in {places}"
    yield f"speed-up {report.cpu / max(report.wall, 1e-9):.2f}: CPU time of the tasks / wall time"
