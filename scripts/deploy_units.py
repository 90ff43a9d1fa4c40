"""Write the example units in deploy/ as `tidegate service install` writes them; `--check` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from tidegate.gateway.service_files import Manager, Service, plan

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
PROGRAM = ("/opt/tidegate/bin/tidegate", "gateway", "run", "--state-dir")


def units() -> dict[Path, str]:
    """Return every example by its place."""
    own = Service((*PROGRAM, "/home/ana/.tidegate"), Path("/home/ana/.tidegate"))
    whole = Service((*PROGRAM, "/var/lib/tidegate"), Path("/var/lib/tidegate"), "tidegate")
    mac = Service((*PROGRAM, "/Users/ana/.tidegate"), Path("/Users/ana/.tidegate"))
    return {
        DEPLOY / "systemd" / "tidegate.user.service": plan(Manager.SYSTEMD, own, Path("/home/ana")).content,
        DEPLOY / "systemd" / "tidegate.system.service": plan(Manager.SYSTEMD, whole, Path("/")).content,
        DEPLOY / "launchd" / "ai.tidegate.gateway.plist": plan(Manager.LAUNCHD, mac, Path("/Users/ana")).content,
    }


def main(arguments: list[str]) -> int:
    """Write or compare the files."""
    stale = [path for path, text in units().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in arguments:
        for path in stale:
            print(f"{path} is not current; run scripts/deploy_units.py", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(units()[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
