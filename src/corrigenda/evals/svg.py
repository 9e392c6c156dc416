"""An SVG from matplotlib, made fit for a page: no address, no script, ids of its own, and colours that a theme sets.

Plots are drawn in stand-in colours; here each becomes a CSS variable, so that one drawing serves light and dark.
"""

from __future__ import annotations

import re
from html import escape

FOREGROUND, GRID, BACKGROUND = "#0b0b01", "#0b0b02", "#0b0b03"
"""Stand-ins for the text's colour, faint lines, and the page's."""
SERIES = tuple(f"#0b0b1{i}" for i in range(8))
"""Stand-ins for the colours of what is compared."""

_VARIABLES = {
    FOREGROUND: "currentColor",
    GRID: "var(--grid)",
    BACKGROUND: "var(--page)",
    **{colour: f"var(--series-{i})" for i, colour in enumerate(SERIES)},
}
_ID = re.compile(r'\bid="([^"]*)"')
_USE = re.compile(r'(href="#|url\(#)')


def for_page(drawing: str, name: str, title: str, description: str) -> str:
    """Return the `<svg>` element of matplotlib's output, with a text alternative, to stand in a page.

    `name` (letters) sets its ids apart from those of the page's other drawings.
    """
    inner = drawing[drawing.index("<svg") :].strip()
    inner = re.sub(r"<metadata>.*?</metadata>", "", inner, flags=re.DOTALL)
    inner = re.sub(r"<style[^>]*>.*?</style>", "", inner, flags=re.DOTALL)
    inner = re.sub(r"<!--.*?-->", "", inner, flags=re.DOTALL)
    inner = inner.replace("xlink:href=", "href=")
    inner = _ID.sub(lambda found: f'id="{name}-{found[1]}"', inner)
    inner = _USE.sub(lambda found: f"{found[1]}{name}-", inner)
    for stand_in, variable in _VARIABLES.items():
        inner = inner.replace(stand_in, variable)
    box = re.search(r'viewBox="([^"]*)"', inner)
    assert box is not None  # matplotlib always gives one
    opening = (
        f'<svg role="img" viewBox="{box[1]}" aria-labelledby="{name}-title {name}-description">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-description">{escape(description)}</desc>'
    )
    return opening + inner[inner.index(">") + 1 :]
