"""Draws a definition, or the position of an instance in it, as SVG. Pure."""

from __future__ import annotations

from html import escape

from pyjms.flows.definition import Flow, Step
from pyjms.flows.instance import Instance, Status
from pyjms.flows.states import FlowState, state_of

_WIDTH, _HEIGHT, _GAP, _MARGIN, _UNDO_TOP = 170, 64, 46, 20, 132
_STYLE = """
text{font:13px system-ui,sans-serif;fill:#1d2530}.small{font-size:11px;fill:#5b6675}
rect{fill:#fff;stroke:#8a94a3;stroke-width:1.5}.done rect{fill:#dff3e4;stroke:#2e7d4f}.now rect{fill:#fff4d6;stroke:#b7791f;stroke-width:3}
.undone rect{fill:#e8e4f6;stroke:#6750a4}.parked rect{fill:#fde3e1;stroke:#b3261e;stroke-width:3}
path{fill:none;stroke:#8a94a3;stroke-width:1.5;marker-end:url(#tip)}.back{stroke-dasharray:5 4}
.tip{fill:#8a94a3;stroke:none;marker-end:none}
@media(prefers-color-scheme:dark){text{fill:#e6eaf0}.small{fill:#a3adba}rect{fill:#1f2733;stroke:#6b7686}.done rect{fill:#1d3b2a}
.now rect{fill:#4a3a12}.undone rect{fill:#332b52}.parked rect{fill:#4f1f1c}}
"""
_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path class="tip" d="M0 0 8 4 0 8Z"/></marker></defs>'
)


def draw(flow: Flow, instance: Instance | None = None) -> str:
    """Return an SVG document: steps from left to right, compensations below, and the done steps of an instance."""
    width = 2 * _MARGIN + len(flow.steps) * (_WIDTH + _GAP) - _GAP
    height = _UNDO_TOP + _HEIGHT + 2 * _MARGIN + (0 if instance is None else _MARGIN + 24)
    title = f"{flow.title or flow.name}, version {flow.version}"
    told = "" if instance is None else f": instance {instance.id} is {instance.status.value}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        f"<title>{escape(title + told)}</title><style>{_STYLE}</style>",
        _TIP,
        f'<text x="{_MARGIN}" y="{_MARGIN + 4}">{escape(title)}</text>',
    ]
    for index, step in enumerate(flow.steps):
        parts += _step(flow, instance, index, step)
    if instance is not None:
        line = f"{instance.status.value}{f' ({instance.reason})' if instance.reason else ''}{_resources(state_of(flow, instance))}"
        parts.append(f'<text x="{_MARGIN}" y="{height - _MARGIN}">{escape(line)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _resources(state: FlowState) -> str:
    """Return the resources of an instance's state."""
    return "".join(
        f"; {what} {', '.join(names)}"
        for what, names in (("holds", state.holds), ("changing", state.changing))
        if names
    )


def _step(flow: Flow, instance: Instance | None, index: int, step: Step) -> list[str]:
    left, top = _MARGIN + index * (_WIDTH + _GAP), 2 * _MARGIN
    resources = [
        *sorted(flow.held(index) & flow.held(index + 1)),
        *(f"+{name}" for name in step.takes),
        *(f"-{name}" for name in step.releases),
    ]
    parts = []
    if resources:
        told = f"holds {', '.join(resources)}"
        parts.append(
            f'<g><title>{escape(told)}</title><text class="small" x="{left}" y="{top - 5}">{escape(_short(told, 28))}</text></g>'
        )
    parts += [_box(left, top, _mark(flow, instance, index, backward=False), step.name, step.queue, f"→ {step.state}")]
    if index + 1 < len(flow.steps):
        parts.append(f'<path d="M{left + _WIDTH} {top + _HEIGHT // 2}h{_GAP}"/>')
    if step.compensation is not None:
        undo_top = _UNDO_TOP + _MARGIN
        parts.append(f'<path class="back" d="M{left + _WIDTH // 2} {top + _HEIGHT}V{undo_top}"/>')
        parts.append(
            _box(
                left, undo_top, _mark(flow, instance, index, backward=True), f"undo {step.name}", step.compensation, ""
            )
        )
    return parts


def _mark(flow: Flow, instance: Instance | None, index: int, *, backward: bool) -> str:
    """Return the class of a step's box, or of its compensation's."""
    if instance is None:
        return ""
    # A parked instance knows its direction, so that the mark is on the step or on its compensation.
    went_back = instance.was_compensating or instance.status in (Status.COMPENSATING, Status.COMPENSATED)
    if index == instance.position and not instance.status.is_final and backward == went_back:
        return "parked" if instance.status is Status.PARKED else "now"
    what = "compensated" if backward else "done"
    was = any(note.step == flow.steps[index].name and note.what == what for note in instance.story)
    return ("undone" if backward else "done") if was else ""


def _box(left: int, top: int, mark: str, *lines: str) -> str:
    texts = "".join(
        f'<text class="{"small" if number else ""}" x="{left + 10}" y="{top + 20 + 18 * number}">{escape(_short(line))}</text>'
        for number, line in enumerate(lines)
    )
    whole = escape(", ".join(line for line in lines if line))
    return f'<g class="{mark}"><title>{whole}</title><rect x="{left}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" rx="8"/>{texts}</g>'


def _short(line: str, most: int = 24) -> str:
    return line if len(line) <= most else line[: most - 1] + "…"
