"""The image, the compose file and the proxies in front: checked as text, and what they run is run here."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from cli.driver import clean_environment, short_state_dir
from deploy.test_service import PROGRAM, free_port, healthy
from fakes.event_loop import on_loop
from harness.stage import stage
from tidegate.config.json5 import parse, to_plain

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
ROOT = DEPLOY.parent


def instructions() -> list[list[tuple[str, str]]]:
    """Return the stages of the Dockerfile, each as its instructions and their text."""
    text = "\n".join(line for line in (DEPLOY / "Dockerfile").read_text().splitlines() if not line.startswith("#"))
    stages: list[list[tuple[str, str]]] = []
    for line in text.replace("\\\n", " ").splitlines():
        if not line.strip():
            continue
        name, _, rest = line.strip().partition(" ")
        if name == "FROM":
            stages.append([])
        stages[-1].append((name, rest))
    return stages


def last(name: str) -> str:
    """Return the text of the last instruction of a name in the final stage."""
    return [rest for found, rest in instructions()[-1] if found == name][-1]


def block(service: str) -> dict[str, str]:
    """Return the keys of one service of the compose file with the text that belongs to each."""
    lines = (DEPLOY / "compose.yaml").read_text().splitlines()
    start = lines.index(f"  {service}:") + 1
    found: dict[str, str] = {}
    key = ""
    for line in lines[start:]:
        if line.strip() and not line.startswith("    "):
            break
        if match := re.match(r"    (\w+):\s*(.*)", line):
            key = match[1]
            found[key] = match[2]
        elif key and not line.strip().startswith("#"):
            found[key] += f"\n{line.strip()}"
    return found


def test_the_image_holds_nothing_of_the_build_and_runs_as_nobody_special() -> None:
    stages = instructions()
    assert len(stages) == 2
    assert last("USER") == "10001:10001"
    assert last("VOLUME") == "/state"
    assert all(rest.startswith("--from=build ") for name, rest in stages[-1] if name == "COPY")
    assert "TIDEGATE_STATE_DIR=/state" in last("ENV")
    pinned = [rest for name, rest in stages[0] if name == "RUN" and "install" in rest]
    assert "--require-hashes" in pinned[0]


def test_the_build_sees_everything_that_it_needs_and_no_state() -> None:
    allowed = {line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"}
    assert {"src", "gateway", "adapters", "routing", "sessions", "agent_runtime", "config", "pyproject.toml"} <= allowed
    assert all((ROOT / name).exists() for name in allowed)
    assert (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()[0] == "*"


def test_the_health_check_of_the_image_tells_a_gateway_that_runs_from_one_that_does_not() -> None:
    program, *words = json.loads(last("HEALTHCHECK").partition("CMD ")[2])
    assert program == "python"
    entry = json.loads(last("ENTRYPOINT")) + json.loads(last("CMD"))
    assert entry == ["tidegate", "gateway", "run"]
    with short_state_dir() as state:
        port = free_port()
        check = [sys.executable, *(word.replace("18790", str(port)) for word in words)]
        (state / "tidegate.json").write_text(json.dumps({"gateway": {"port": port}}))
        assert subprocess.run(check, capture_output=True, timeout=20, check=False).returncode != 0
        env = clean_environment(HOME=str(state), TIDEGATE_STATE_DIR=str(state))
        process = subprocess.Popen([str(PROGRAM), *entry[1:]], env=env, stderr=subprocess.DEVNULL)
        try:
            healthy(port, process)
            assert subprocess.run(check, timeout=20, check=False).returncode == 0
        finally:
            process.terminate()
            assert process.wait(30) == 0


def test_the_compose_file_gives_the_gateway_as_little_as_it_can() -> None:
    gateway = block("tidegate")
    assert gateway["read_only"] == "true"
    assert gateway["user"] == '"10001:10001"'
    assert gateway["cap_drop"] == "[ALL]"
    assert "no-new-privileges:true" in gateway["security_opt"]
    assert "- state:/state" in gateway["volumes"]
    assert "18790" not in gateway["ports"]
    assert int(gateway["stop_grace_period"].removesuffix("s")) >= 45
    assert block("caddy")["network_mode"] == '"service:tidegate"'
    assert block("caddy")["read_only"] == "true"


def test_a_gateway_works_with_nothing_writable_but_its_state() -> None:
    """Only `/state` and `/tmp` can be written in the container; everything the gateway opens to write lies there."""
    hook = (
        "import os, sys\n"
        "allowed = (os.environ['TIDEGATE_STATE_DIR'], '/dev/', '/tmp/', ':memory:')\n"
        "def look(event, args):\n"
        "    if event != 'open' or not isinstance(args[0], str): return\n"
        "    flags = args[2] if isinstance(args[2], int) else 0\n"
        "    if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and not args[0].startswith(allowed):\n"
        "        print('WROTE', args[0], file=sys.stderr)\n"
        "sys.addaudithook(look)\n"
        "from tidegate.gateway.cli.main import main\n"
        "main(['gateway', 'run', '--port', '0'])\n"
    )
    with short_state_dir() as state:
        env = clean_environment(HOME=str(state), TIDEGATE_STATE_DIR=str(state), PYTHONDONTWRITEBYTECODE="1")
        process = subprocess.Popen([sys.executable, "-c", hook], env=env, stderr=subprocess.PIPE, text=True, cwd=state)
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "gateway.ready" in line:
                process.terminate()
        assert process.wait(30) == 0
        assert any("gateway.ready" in line for line in lines)
        assert not [line for line in lines if line.startswith("WROTE")]


def proxy_headers(kind: str) -> dict[str, str]:
    """Return what a proxy of the examples sends for a client at 203.0.113.7."""
    if kind == "caddy":
        assert "reverse_proxy 127.0.0.1:18790" in (DEPLOY / "caddy/Caddyfile").read_text()
        return {
            "Host": "gateway.example.org",
            "X-Forwarded-For": "203.0.113.7",
            "X-Forwarded-Proto": "https",
            "X-Forwarded-Host": "gateway.example.org",
        }
    values = {"$host": "gateway.example.org", "$remote_addr": "203.0.113.7", "$scheme": "https", "$http_upgrade": ""}
    found = {}
    for line in (DEPLOY / "nginx/tidegate.conf").read_text().splitlines():
        words = shlex.split(line.strip().rstrip(";")) if "proxy_set_header" in line else []
        if words and (value := values.get(words[2], words[2])) and not value.startswith("$"):
            found[words[1]] = value
    return found


@pytest.mark.parametrize("kind", ["caddy", "nginx"])
def test_behind_a_proxy_the_gateway_knows_its_name_and_who_comes(tmp_path: Path, kind: str) -> None:
    example = DEPLOY / "behind-proxy.json5"
    settings = to_plain(parse(example.read_text(), example).root)
    assert isinstance(settings, dict)

    @on_loop
    async def check() -> None:
        more = f"gateway: {json.dumps(settings['gateway'])},"
        async with stage(tmp_path, more=more) as play, play.gateway() as gateway, aiohttp.ClientSession() as http:
            url = f"http://127.0.0.1:{gateway.port}/readyz"
            headers = proxy_headers(kind)
            assert headers["X-Forwarded-For"] == "203.0.113.7"
            async with http.get(url, headers=headers) as response:
                # A person elsewhere: the name is ours, the details are not for them.
                assert (response.status, await response.json()) == (200, {"ready": True})
            async with http.get(url, headers={**headers, "Host": "evil.example"}) as response:
                assert response.status == 403
            page = {**headers, "Origin": "https://gateway.example.org"}
            async with http.ws_connect(f"http://127.0.0.1:{gateway.port}/", headers=page) as socket:
                assert (await socket.receive_json(timeout=5))["event"] == "connect.challenge"

    check()
