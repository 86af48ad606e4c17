"""Writes the tables and the chart of docs/explain/performance.md from the result of a run.

Everything between the two marks of the page is replaced; the rest of it is written by hand.
`python -m bench.report` writes them again from docs/explain/performance.json.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from bench import bars
from bench.bars import Bar
from bench.chart import chart

FOLDER = Path(__file__).parents[1] / "docs" / "explain"
BEGIN, END = "<!-- figures: written by `make bench-docs` -->", "<!-- end of the figures -->"
SIGNS = {"beyond": " ✓✓", "must": " ✓", "missed": " ✗", "": ""}


def write(result: dict, folder: Path = FOLDER) -> None:
    """Rewrite the result, the figures of the page and the chart in `folder`."""
    page = folder / "performance.md"
    before, begin, rest = page.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} does not have the lines `{BEGIN}` and `{END}`")
    page.write_text(f"{before}{BEGIN}\n{figures(result)}{END}{after}", "utf-8")
    (folder / "performance.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    (folder / "performance.svg").write_text(chart(result), "utf-8")


def figures(result: dict) -> str:
    """Return all tables, each with a line about its run."""
    parts = [
        _run(result["gateway"]["about"], "up to "),
        "### CPU, as a ratio to nginx",
        _table(bars.NGINX_BARS, result, ("Ollama upstream", "OpenAI chat upstream")),
        "### Stalls, memory, disconnections",
        _table(bars.OTHER_BARS, result, ("Ollama upstream", "OpenAI chat upstream")),
        "### Start, and workers on all cores",
        _table(bars.START_BARS, result, ("measured",)),
    ]
    if "peers" in result:
        parts += [
            "### Other gateways: CPU, as a ratio to toolbridge",
            _run(result["peers"]["about"]),
            _table(bars.PEER_BARS, result, ("times the CPU of toolbridge",)),
            _peer_costs(result["peers"]),
        ]
    return "\n" + "\n\n".join(parts) + "\n\n"


def _run(about: dict, most: str = "") -> str:
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    busy = about["load_before"] > 0.5 or about["load_after"] > about["cores"] + 1
    state = "**The machine was busy with other work**" if busy else "The machine was idle"
    taken = about.get("taken_by_host")  # results before decision 52 do not have it
    host = "" if taken is None else f" Its host took {number(100 * taken)} % of the CPU time."
    return (
        f"{about['date']}, {about['cores']} cores ({about['processor']}), "
        f"{about['memory_gb']} GB, {about['system']}. {versions}. "
        f"{about['kind']}, median of {most}{about['rounds']} round{'s' * (about['rounds'] > 1)}. "
        f"{state}: load {about['load_before']} before and {about['load_after']} after the run.{host}"
    )


def _table(rows: Iterable[Bar], result: dict, columns: tuple[str, ...]) -> str:
    lines = [
        f"| | must | beyond | {' | '.join(columns)} |",
        "|---|---|---|" + "---|" * len(columns),
    ]
    for bar in rows:
        cells = [_limit(bar, bar.must), _limit(bar, bar.beyond)]
        cells += [_cell(bar, value) for value in bar.values(result)]
        lines.append(f"| {bar.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _limit(bar: Bar, limit: float | None) -> str:
    if limit is None:
        return ""
    return f"{'≥' if bar.higher_is_better else '≤'} {number(limit)}{bar.unit}"


def _cell(bar: Bar, value: float | None) -> str:
    if value is None:
        return "not measured"
    return f"{number(value)}{bar.unit}{SIGNS[bar.reached(value)]}"


def number(value: float) -> str:
    """Return a figure with three digits at most, and all digits of whole numbers."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2g}"


def _peer_costs(peers: dict) -> str:
    names = [name for name in peers["start"] if name != "about"]
    lines = [f"| | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    units = {"JSON": "CPU µs per JSON request", "stream": "CPU µs per stream",
             "write": "CPU µs per write", "burst chunk": "CPU µs per chunk of a burst"}  # fmt: skip
    for row, label in units.items():
        lines.append(_costs(label, [peers[row][name]["cost"] for name in names]))
    first = [peers["first chunk"][name]["first_chunk_us"] for name in names]
    lines.append(_costs("µs to the first chunk, one stream at a time", first))
    for figure, label in (("cold_start_s", "s to the first answer"), ("idle_mb", "MB idle")):
        lines.append(_costs(label, [peers["start"][name][figure] for name in names]))
    return "\n".join(lines)


def _costs(label: str, values: list[float]) -> str:
    return f"| {label} | {' | '.join(number(value) for value in values)} |"


if __name__ == "__main__":
    write(json.loads((FOLDER / "performance.json").read_text("utf-8")))
