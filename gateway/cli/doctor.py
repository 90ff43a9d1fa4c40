"""`tidegate doctor`: everything that could be wrong, with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from tidegate.faults import DESCRIPTIONS
from tidegate.gateway.cli.call import Call
from tidegate.gateway.cli.parser import Arguments
from tidegate.gateway.cli.rpc import running_pid
from tidegate.gateway.cli.terminal import Style, columns, fold, printable, table
from tidegate.gateway.doctor import ERROR, OK, WARNING, Finding, examine

_MARKS = {OK: ("✓", "green"), WARNING: ("!", "yellow"), ERROR: ("✗", "red")}


def doctor(arguments: Arguments) -> int:
    """Examine the installation; 1 when something is wrong, warnings alone are 0."""
    call = Call.of(arguments)
    if arguments.crash_points:
        points = [{"point": point.value, "description": text} for point, text in DESCRIPTIONS.items()]
        call.show(
            points, lambda style: table(style, ("POINT", "REACHED WHEN"), [tuple(row.values()) for row in points])
        )
        return 0
    findings = examine(call.site, call.environ, running_pid(call.site))
    errors = sum(finding.level == ERROR for finding in findings)
    data = {"ok": not errors, "findings": [asdict(finding) for finding in findings]}
    call.show(data, lambda style: _lines(findings, style))
    return 1 if errors else 0


def _lines(findings: list[Finding], style: Style) -> Iterator[str]:
    wide = max((len(finding.area) for finding in findings), default=0)
    indent = wide + len("✓  ")
    for finding in findings:
        mark, colour = _MARKS[finding.level]
        first, *more = fold(printable(finding.text), columns() - indent)
        yield f"{style.paint(mark, colour)} {style.bold(f'{finding.area:<{wide}}')} {first}"
        yield from (" " * indent + row for row in more)
        if finding.hint:
            # A command is never broken: it has to be copied.
            yield " " * indent + style.dim(f"→ {printable(finding.hint)}")
    counts = {level: sum(finding.level == level for finding in findings) for level in (ERROR, WARNING)}
    yield ""
    told = [f"{number} {level}{'s' if number > 1 else ''}" for level, number in counts.items() if number]
    yield ", ".join(told) or style.paint("all is well", "green")
