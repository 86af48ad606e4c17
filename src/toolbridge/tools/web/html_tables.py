"""Tables of HTML as markdown; a table that only lays out a page becomes paragraphs."""

from dataclasses import dataclass, field

_LONGEST_CELL = 300
Outside = tuple[list[str], int, str, list[int]]


@dataclass
class Table:
    """A table that is open."""

    rows: list[list[str]] = field(default_factory=list)
    outside: Outside | None = None
    """The state of the writer before the open cell; None between cells."""


def written_table(table: Table) -> str:
    rows = [row for row in table.rows if any(row)]
    if not rows:
        return ""
    cells = [cell for row in rows for cell in row]
    is_data = max(map(len, rows)) > 1 and not any(
        "\n" in cell or len(cell) > _LONGEST_CELL for cell in cells
    )
    if not is_data:
        return "\n\n".join(cell for cell in cells if cell)
    first, *rest = rows
    lines = [_line(first), "|" + " --- |" * len(first), *map(_line, rest)]
    return "\n".join(lines)


def _line(row: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
