"""Tables whose rows one test checks: for pure checks that cost less than a test of pytest does.

`every_row` takes the arguments of `pytest.mark.parametrize`. All rows run, also after a failure,
and each failure names its row. Use it where a row needs no fixture and takes milliseconds.
"""

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import pytest


class TableRow(NamedTuple):
    id: str
    arguments: dict[str, object]


def every_row(
    names: str | Sequence[str], values: Iterable[object], *, ids: object = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that calls a test for every row of the table, in one test."""
    fields = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
    rows = _distinct([_row(fields, value, _id(ids, at, value)) for at, value in enumerate(values)])
    if not rows:
        raise ValueError(f"a table of {names} without rows checks nothing")

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        inner: list[TableRow] = getattr(check, "rows", [TableRow("", {})])
        return _table(
            getattr(check, "check", check),
            [
                TableRow(f"{low.id}-{row.id}".lstrip("-"), low.arguments | row.arguments)
                for row in rows
                for low in inner
            ],
        )

    return decorate


def _table(check: Callable[..., None], rows: list[TableRow]) -> Callable[..., None]:
    signature = inspect.signature(check)
    given = [p for name, p in signature.parameters.items() if name not in rows[0].arguments]

    @functools.wraps(check)
    def checked(*args: object, **fixtures: object) -> None:
        check_rows(functools.partial(check, *args, **fixtures), rows)

    checked.__signature__ = signature.replace(parameters=given)  # type: ignore[attr-defined]
    checked.check, checked.rows = check, rows  # type: ignore[attr-defined]
    return checked


def check_rows(check: Callable[..., None], rows: Iterable[TableRow]) -> None:
    """Call `check` for every row; raise what failed, with the row as a note."""
    failures: list[BaseException] = []
    for row in rows:
        try:
            check(**row.arguments)
        except pytest.skip.Exception as skipped:
            raise AssertionError(f"the row {row.id!r} was skipped: {skipped.msg}") from None
        except BaseException as error:
            error.add_note(f"in the row {row.id!r}")
            failures.append(error)
            if not isinstance(error, Exception):
                break  # an interrupt, or the time limit of the whole test
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} rows fail", failures)


def _row(fields: list[str], value: object, id: str | None) -> TableRow:
    values: Sequence[object] = (value,) if len(fields) == 1 else value  # type: ignore[assignment]
    if hasattr(value, "marks") and hasattr(value, "values"):  # made by `pytest.param`
        if value.marks:
            raise ValueError(f"a row cannot have marks: {value}")
        values, id = value.values, value.id or id
    shown = "-".join(str(v) if isinstance(v, str | int | float) else repr(v)[:60] for v in values)
    return TableRow(id or shown[:120], dict(zip(fields, values, strict=True)))


def _distinct(rows: list[TableRow]) -> list[TableRow]:
    """Return the rows with a number in every id that several have: the shown values are shortened."""
    seen = Counter(row.id for row in rows)
    return [
        row._replace(id=f"{row.id} {at}") if seen[row.id] > 1 else row
        for at, row in enumerate(rows)
    ]


def _id(ids: object, at: int, value: object) -> str | None:
    if isinstance(ids, list | tuple):
        return str(ids[at])
    return str(ids(value)) if callable(ids) else None
