"""Draws the result of a run as an SVG image, without a library.

The first part has a bar for each ratio to nginx, with lines at its two limits; the second has the CPU
of a stream through each gateway. Both axes are logarithmic: the figures differ by hundreds.
"""

import math
from xml.sax.saxutils import escape

from bench import bars

_WIDTH, _LEFT, _ROW, _BAR = 820, 300, 30, 11
_AXIS = _WIDTH - _LEFT - 130
_TEXT, _FAINT, _PAPER = "#1c2430", "#5b6675", "#ffffff"
_COLORS = {"ollama": "#3b6fb6", "openai_chat": "#8fb3e0"}
_MUST, _BEYOND = "#c0392b", "#2e8b57"


def chart(result: dict) -> str:
    """Return the image of a result."""
    rows = [(bar, bar.values(result)) for bar in bars.NGINX_BARS]
    rows = [(bar, values) for bar, values in rows if any(value for value in values)]
    most = max((value for _, values in rows for value in values if value), default=10.0)
    parts = [
        _text(20, 34, "CPU as a ratio to nginx that forwards the same bytes (logarithmic)", size=16)
    ]
    parts += _legend(54)
    y = 84
    for bar, values in rows:
        parts += _ratio_row(bar, values, y, most)
        y += _ROW
    if peers := _peer_costs(result):
        parts.append(
            _text(
                20, y + 34, "CPU of a stream, and as a ratio to toolbridge (logarithmic)", size=16
            )
        )
        y += 54
        least, most = min(peers.values()) / 2, max(peers.values())
        for name, cost in peers.items():
            width = _length(cost / least, most / least)
            parts += _peer_row(name, cost, y, width, cost / peers["toolbridge"])
            y += 24
    height = y + 20
    size = f'width="{_WIDTH}" height="{height}"'
    view = f'viewBox="0 0 {_WIDTH} {height}" font-family="system-ui, sans-serif"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view}>'
    paper = f'<rect {size} rx="8" fill="{_PAPER}" stroke="#d5dbe3"/>'
    return "\n".join([head, paper, *parts, "</svg>", ""])


def _length(value: float, most: float) -> float:
    """Return the length of a value on a logarithmic axis from 1 to `most`."""
    return max(2.0, math.log10(max(1.0, value)) / math.log10(most) * _AXIS)


def _legend(y: int) -> list[str]:
    drawn = []
    x = 20
    names = {"Ollama upstream": _COLORS["ollama"], "OpenAI chat upstream": _COLORS["openai_chat"],
             "must": _MUST, "beyond": _BEYOND}  # fmt: skip
    for name, color in names.items():
        drawn += [_rect(x, y - 9, 10, 10, color), _text(x + 15, y, name, fill=_FAINT, size=12)]
        x += 36 + 7 * len(name)
    return drawn


def _ratio_row(bar: bars.Bar, values: list, y: int, most: float) -> list[str]:
    drawn = [_text(20, y + 15, bar.name)]
    for number, (value, color) in enumerate(zip(values, _COLORS.values(), strict=True)):
        if value:
            top = y + 1 + number * (_BAR + 1)
            width = _length(value, most)
            drawn.append(_rect(_LEFT, top, width, _BAR, color))
            label = f"{value:.1f}×"
            drawn.append(_text(_LEFT + width + 8, top + 10, label, fill=_FAINT, size=11))
    for limit, color in ((bar.must, _MUST), (bar.beyond, _BEYOND)):
        if limit is not None:
            drawn.append(_rect(_LEFT + _length(limit, most) - 1, y - 1, 2, 2 * _BAR + 5, color))
    return drawn


def _peer_costs(result: dict) -> dict[str, float]:
    row = result.get("peers", {}).get("stream", {})
    return {name: figures["cost"] for name, figures in row.items()}


def _peer_row(name: str, cost: float, y: int, width: float, times: float) -> list[str]:
    color = _COLORS["ollama"] if name == "toolbridge" else "#b9c2cd"
    label = f"{cost:,.0f} µs" + (
        "" if name == "toolbridge" else f" ({times:.{0 if times >= 10 else 1}f}×)"
    )
    return [
        _text(20, y + 13, name),
        _rect(_LEFT, y + 2, width, 14, color),
        _text(_LEFT + width + 5, y + 13, label, fill=_FAINT, size=11),
    ]


def _rect(x: float, y: float, width: float, height: float, fill: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" fill="{fill}"/>'


def _text(x: float, y: float, text: str, *, fill: str = _TEXT, size: int = 13) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" font-size="{size}">{escape(text)}</text>'
