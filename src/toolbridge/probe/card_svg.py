"""Draws a card as an SVG image: a grid of kinds and modes, and the facts below it."""

from xml.sax.saxutils import escape

from toolbridge.probe.card import Card, facts, rows

_ROW, _TOP, _LEFT, _COLUMN, _MARGIN = 26, 64, 190, 116, 20
_TEXT, _FAINT, _PAPER = "#1c2430", "#5b6675", "#ffffff"


def card_svg(card: Card) -> str:
    """Return the image of a card."""
    grid = rows(card)
    lines = facts(card)
    width = _LEFT + _COLUMN * len(card.modes) + 2 * _MARGIN
    height = _TOP + _ROW * (len(grid) + 1) + 20 * len(lines) + _MARGIN
    parts = [
        _open(width, height),
        f'<rect width="{width}" height="{height}" rx="8" fill="{_PAPER}" stroke="#d5dbe3"/>',
        _text(_MARGIN, 32, card.model, size=17),
        _text(_MARGIN, 50, f"toolbridge probe · {card.api}", fill=_FAINT, size=12),
    ]
    for number, row in enumerate(grid):
        y = _TOP + _ROW * number
        parts.append(_text(_MARGIN, y + 18, row[0], fill=_TEXT if number else _FAINT))
        for column, cell in enumerate(row[1:]):
            parts += _cell(_MARGIN + _LEFT + _COLUMN * column, y, cell, is_head=number == 0)
    for number, line in enumerate(lines):
        y = _TOP + _ROW * len(grid) + 24 + 20 * number
        parts.append(_text(_MARGIN, y, line, fill=_FAINT, size=12))
    return "\n".join([*parts, "</svg>", ""])


def _cell(x: int, y: int, cell: str, *, is_head: bool) -> list[str]:
    middle = x + (_COLUMN - 8) // 2
    if is_head:
        return [_text(middle, y + 18, cell, anchor="middle")]
    drawn = [_text(middle, y + 17, cell, anchor="middle")]
    done, _, total = cell.partition("/")
    if total:
        share = int(done) / max(1, int(total))
        fill = f"hsl({round(8 + 122 * share)} 62% 84%)"
        box = f'<rect x="{x}" y="{y + 1}" width="{_COLUMN - 8}" height="{_ROW - 4}" rx="4"'
        drawn.insert(0, f'{box} fill="{fill}"/>')
    return drawn


def _open(width: int, height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif">'
    )


def _text(
    x: int, y: int, text: str, *, fill: str = _TEXT, size: int = 13, anchor: str = "start"
) -> str:
    return (
        f'<text x="{x}" y="{y}" fill="{fill}" font-size="{size}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )
