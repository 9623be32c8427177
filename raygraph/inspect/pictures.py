"""Pictures of Mermaid text, made in this process: no browser, no server, no system package.

`mermaidx` runs mermaid.js itself in a small JavaScript engine, with a bundled font; `termaid` draws with
characters. Both are wheels, installed by the extra `draw`.
"""

from __future__ import annotations

import re
import zlib
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from raygraph.errors import NotSupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from langchain_core.runnables.graph import Edge, Node

#: For screens with two device pixels to one of CSS, which most have by now.
SCALE: Final = 2.0
#: Mermaid's own look, but for room below a box's title and a box that does not shout.
CONFIG: Final[dict[str, dict[str, Any]]] = {
    "flowchart": {"subGraphTitleMargin": {"top": 4, "bottom": 18}},
    "themeVariables": {"clusterBkg": "#fafafa", "clusterBorder": "#bdbdbd"},
}
#: Edges beyond one a node that a drawing with characters may have. termaid needs 0.1 GB and two seconds for 16 of
#: them, more than 3 GB for 20, and crossing lines of characters can't be followed anyway.
_EXTRA_EDGES: Final = 12
_BOX: Final = re.compile(
    r'<g[^>]*class="cluster[^"]*"[^>]*>\s*<rect(?P<rect>[^>]*)>(?:</rect>)?\s*'
    r'<g[^>]*class="cluster-label[^"]*"[^>]*?transform="translate\((?P<x>[-\d.]+)'
)
_SIZE: Final = re.compile(r'viewBox="[-\d.]+ [-\d.]+ ([\d.]+) ')
_LEFT: Final = re.compile(r'\bx="(?P<x>[-\d.]+)"')


def _library(name: str) -> Any:
    """Import a drawing library.

    Raises:
        NotSupportedError: It is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise NotSupportedError(
            f"Drawing a picture of a graph needs {name}, which is not installed: pip install 'raygraph[draw]'. "
            "draw_mermaid() works without it; its text can be pasted into any Mermaid viewer.",
            key="draw",
        ) from error


# Mermaid takes seconds on a large graph, and a notebook shows the same one again and again.
@lru_cache(maxsize=16)
def svg_of(mermaid: str) -> str:
    """An SVG picture of Mermaid text.

    Args:
        mermaid: The text.

    Raises:
        NotSupportedError: The extra `draw` is not installed.
    """
    svg = str(_library("mermaidx").render(mermaid).svg())
    svg = _titles_left(svg)
    found = re.search(r'<svg[^>]*?\bid="([^"]+)"', svg)
    if found:
        # Style sheets and arrow heads are found by id, so two pictures on one page must not share theirs.
        svg = svg.replace(found[1], f"raygraph-{zlib.crc32(mermaid.encode()):08x}")
    return svg


def png_of(svg: str, background: str | None = "white", scale: float = SCALE) -> bytes:
    """A PNG picture of an SVG picture that `svg_of` made.

    Args:
        svg: The picture.
        background: A CSS colour; None or "transparent" for none.
        scale: Pixels to one of the SVG's.

    Raises:
        NotSupportedError: The extra `draw` is not installed.
    """
    color = None if background in (None, "transparent") else background
    size = _SIZE.search(svg)
    width = None if size is None else float(size[1]) * scale
    return bytes(_library("mermaidx").svg_to_png(svg, width=width, background=color))


def _titles_left(svg: str) -> str:
    """Move the titles of boxes to the left: edges come in at the middle, across a title that stands there."""

    def moved(match: re.Match[str]) -> str:
        left = _LEFT.search(match["rect"])
        if left is None:
            return match[0]
        return match[0][: match.start("x") - match.start()] + f"{float(left['x']) + 8:g}"

    return _BOX.sub(moved, svg)


def text_of(nodes: Mapping[str, Node], edges: Sequence[Edge], notes: Mapping[str, str], unicode: bool) -> str:
    """A picture made of characters; of a graph with too many crossing edges, the list of its edges.

    Args:
        nodes: By id; those of subgraphs are shown by their full id.
        edges: Between them.
        notes: What stands behind a node's name, by id.
        unicode: Use box-drawing characters, not only ASCII.

    Raises:
        NotSupportedError: The extra `draw` is not installed.
    """
    termaid = _library("termaid")
    if len(edges) - len(nodes) > _EXTRA_EDGES:
        return "\n".join(_listed(nodes, edges, notes))
    ids = {key: f"n{number}" for number, key in enumerate(nodes)}
    lines = ["graph TD"]
    for key, number in ids.items():
        lines.append(f'  {number}["{_quoted(key + notes.get(key, ""))}"]')
    for edge in edges:
        arrow = "-.->" if edge.conditional else "-->"
        label = "" if edge.data is None else f'|"{_quoted(str(edge.data))}"|'
        lines.append(f"  {ids[edge.source]} {arrow}{label} {ids[edge.target]}")
    drawn = termaid.render("\n".join(lines), use_ascii=not unicode, padding_x=1, padding_y=0, gap=3)
    return "\n".join(line.rstrip() for line in str(drawn).splitlines())


def _listed(nodes: Mapping[str, Node], edges: Sequence[Edge], notes: Mapping[str, str]) -> Iterator[str]:
    for key in nodes:
        yield key + notes.get(key, "")
        for edge in edges:
            if edge.source == key:
                label = "" if edge.data is None else f"  ({edge.data})"
                yield f"  {'-.->' if edge.conditional else '-->'} {edge.target}{label}"


def _quoted(text: str) -> str:
    return " ".join(text.split()).replace('"', "'")
