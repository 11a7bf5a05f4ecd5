"""Scores as one self-contained web page: a table and a chart, nothing loaded from elsewhere. Pure."""

from __future__ import annotations

from html import escape

from markdown_rag.amounts import amount
from markdown_rag.evaluation.table import rows, shown, verdicts
from markdown_rag.facade import Json

MEASURE = "ndcg@10"  # what the chart shows
_ROW, _LEFT, _WIDE = 26, 190, 420  # pixels
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0 } th, td { padding: .25rem .7rem; border-bottom: 1px solid #ddd }
td, th + th { text-align: right } tr > :first-child { text-align: left } small { color: #666 }
.bar { fill: #4a7ab5 } .group { fill: #9db8d6 } .error { stroke: #222; stroke-width: 1.5 } .grid { stroke: #ddd }
"""


def page(scores: Json) -> str:
    """The page."""
    title = f"{escape(str(scores['set']))}: {amount(scores['questions'], 'question')}"
    facts = "".join(f"<p>{escape(line)}</p>" for line in verdicts(scores))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"</head><body><h1>{title}</h1><p>Means; standard errors are small and after each mean.</p>{_table(scores)}"
        f"<h2>{MEASURE}</h2>{_chart(scores)}{facts}</body></html>\n"
    )


def _table(scores: Json) -> str:
    names = shown(scores)
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    lines = [
        f"<tr><th>{escape(name)}</th>" + "".join(_cell(of[measure]) for measure in names if measure in of) + "</tr>"
        for name, of in rows(scores)
    ]
    return f"<table><tr><th></th>{head}</tr>{''.join(lines)}</table>"


def _cell(of: Json) -> str:
    return f"<td>{of['mean']:.3f} <small>{of['error']:.3f}</small></td>"


def _chart(scores: Json) -> str:
    """A bar for each row, with a line as wide as two standard errors to each side."""
    found = rows(scores)
    height = _ROW * len(found) + 24
    grid = "".join(
        f'<line class="grid" x1="{_x(tenth / 10)}" x2="{_x(tenth / 10)}" y1="0" y2="{height - 20}"/>'
        f'<text x="{_x(tenth / 10)}" y="{height - 4}" text-anchor="middle" font-size="11">{tenth / 10}</text>'
        for tenth in range(0, 11, 2)
    )
    bars = "".join(_bar(at, name, of[MEASURE], name in scores["modes"]) for at, (name, of) in enumerate(found))
    return f'<svg width="{_LEFT + _WIDE + 70}" height="{height}" role="img" aria-label="{MEASURE}">{grid}{bars}</svg>'


def _bar(at: int, name: str, of: Json, is_mode: bool) -> str:
    top, mean, reach = at * _ROW, of["mean"], 2 * of["error"]
    middle = top + _ROW // 2 - 2
    low, high = _x(max(0.0, mean - reach)), _x(min(1.0, mean + reach))
    return (
        f'<text x="{_LEFT - 8}" y="{middle + 5}" text-anchor="end" font-size="13">{escape(name)}</text>'
        f'<rect class="{"bar" if is_mode else "group"}" x="{_LEFT}" y="{top + 3}" width="{_x(mean) - _LEFT}" '
        f'height="{_ROW - 10}"/><line class="error" x1="{low}" x2="{high}" y1="{middle}" y2="{middle}"/>'
        f'<text x="{_x(1) + 10}" y="{middle + 5}" font-size="13">{mean:.3f}</text>'
    )


def _x(share: float) -> int:
    return _LEFT + round(_WIDE * share)
