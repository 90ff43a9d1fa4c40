"""The page that says who may call what, made from the table of methods."""

from __future__ import annotations

from tidegate.gateway.plane.broadcast import RULES
from tidegate.gateway.plane.contract import Method, MethodTable, Role, Scope, covers

_COLUMNS = (
    Scope.READ,
    Scope.WRITE,
    Scope.ADMIN,
    Scope.APPROVALS,
    Scope.QUESTIONS,
    Scope.PAIRING,
)


def rights_page(methods: MethodTable) -> str:
    """Return the page in Markdown."""
    scopes = [scope.value.removeprefix("operator.") for scope in _COLUMNS]
    lines = [
        "# Who may call what",
        "",
        "Made from the table of methods by `scripts/rights_reference.py`. ✓: an operator who holds this one scope may",
        "call the method. `?`: it depends on the parameters. Unknown methods need `operator.admin`.",
        "",
        f"| method | {' | '.join(scopes)} | node |",
        f"|---|{'---|' * (len(scopes) + 1)}",
        *(_line(method) for method in methods.all()),
        "",
        "## Who sees which event",
        "",
        "| event | scope |",
        "|---|---|",
        *(f"| `{name}` | {rule or 'everybody'} |" for name, rule in sorted(RULES.items())),
        "",
    ]
    return "\n".join(lines)


def _line(method: Method) -> str:
    cells = [_cell(method, scope) for scope in _COLUMNS]
    cells.append("✓" if Role.NODE in method.roles else "")
    name = f"`{method.name}`" + (" (hidden)" if method.hidden else "")
    return f"| {name} | {' | '.join(cells)} |"


def _cell(method: Method, scope: Scope) -> str:
    if Role.OPERATOR not in method.roles or method.scope is None:
        return ""
    if callable(method.scope):
        return "✓" if scope is Scope.ADMIN else "?"
    return "✓" if covers([scope], method.scope) else ""
