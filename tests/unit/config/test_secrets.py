from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tidegate.config.secrets import SecretResolver, SecretUnavailable
from tidegate.config.sections.base import SecretRef
from tidegate.config.sections.system import SecretsSection

ENVIRONMENT = {"KEY": "k1", "OTHER": "k2", "EMPTY": ""}


def resolver(folder: Path, **providers: dict[str, object]) -> SecretResolver:
    section = SecretsSection.model_validate({"providers": providers, "defaults": {"file": "vault"}})
    return SecretResolver(section, ENVIRONMENT, folder)


def ref(source: str, id: str, provider: str = "default") -> SecretRef:
    return SecretRef.model_validate({"source": source, "provider": provider, "id": id})


def vault(folder: Path, text: str, mode: int = 0o600) -> dict[str, object]:
    path = folder / "vault.json"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return {"source": "file", "path": "vault.json", "maxBytes": 1000}


def program(folder: Path, body: str, **options: object) -> dict[str, object]:
    path = folder / "provider"
    path.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{body}\n", encoding="utf-8")
    path.chmod(0o700)
    return {"source": "exec", "command": str(path), **options}


def test_plain_text_is_the_secret_unless_a_variable_is_missing(tmp_path: Path) -> None:
    assert resolver(tmp_path).resolve_secret("abc") == "abc"
    with pytest.raises(SecretUnavailable, match="TOKEN is not set"):
        resolver(tmp_path).resolve_secret("${TOKEN}")


def test_variables_need_a_value_and_a_place_in_the_allowlist(tmp_path: Path) -> None:
    secrets = resolver(tmp_path, mine={"source": "env", "allowlist": ["KEY"]})
    assert secrets.resolve_secret(ref("env", "KEY", "mine")) == "k1"
    assert secrets.resolve_secret(ref("env", "OTHER")) == "k2"
    with pytest.raises(SecretUnavailable, match="not in the allowlist"):
        secrets.resolve_secret(ref("env", "OTHER", "mine"))
    with pytest.raises(SecretUnavailable, match="EMPTY is not set"):
        secrets.resolve_secret(ref("env", "EMPTY"))


def test_a_json_file_is_addressed_by_pointer(tmp_path: Path) -> None:
    secrets = resolver(tmp_path, vault=vault(tmp_path, json.dumps({"a/b": {"c~d": ["x", "y"]}, "n": 1})))
    assert secrets.resolve_secret(ref("file", "/a~1b/c~0d/1")) == "y"
    for pointer in ("/missing", "/a~1b/c~0d/9", "n", "/a~1b/c~0d/-1"):
        with pytest.raises(SecretUnavailable, match="holds no secret"):
            secrets.resolve_secret(ref("file", pointer))
    with pytest.raises(SecretUnavailable, match="is not text"):
        secrets.resolve_secret(ref("file", "/n"))


def test_a_file_can_be_one_secret_as_a_whole(tmp_path: Path) -> None:
    secrets = resolver(tmp_path, vault={**vault(tmp_path, "hush\n"), "mode": "singleValue"})
    assert secrets.resolve_secret(ref("file", "value", "vault")) == "hush"
    with pytest.raises(SecretUnavailable, match="'value'"):
        secrets.resolve_secret(ref("file", "/a", "vault"))


def test_files_that_others_can_read_are_too_large_or_linked_are_refused(tmp_path: Path) -> None:
    secrets = resolver(tmp_path, vault=vault(tmp_path, '{"a": "hush"}', 0o640))
    with pytest.raises(SecretUnavailable, match="chmod 600"):
        secrets.resolve_secret(ref("file", "/a"))
    vault(tmp_path, json.dumps({"a": "x" * 2000}))
    with pytest.raises(SecretUnavailable, match="larger than 1000 bytes"):
        secrets.resolve_secret(ref("file", "/a"))
    (tmp_path / "vault.json").rename(tmp_path / "real.json")
    (tmp_path / "vault.json").symlink_to(tmp_path / "real.json")
    with pytest.raises(SecretUnavailable, match="cannot be read"):
        secrets.resolve_secret(ref("file", "/a"))


def test_a_command_is_asked_without_a_shell_and_sees_only_what_it_may(tmp_path: Path) -> None:
    body = (
        "request = json.load(sys.stdin)\n"
        "value = ' '.join([*sys.argv[1:], os.environ.get('KEY', '-'), os.environ.get('OTHER', '-')])\n"
        "print(json.dumps({'protocolVersion': 1, 'values': {request['ids'][0]: value}}))"
    )
    secrets = resolver(tmp_path, tool=program(tmp_path, body, args=["$(id)"], passEnv=["KEY"]))
    assert secrets.resolve_secret(ref("exec", "a/b", "tool")) == "$(id) k1 -"


@pytest.mark.parametrize(
    ("body", "options", "reason"),
    [
        ("time.sleep(60)", {"timeoutMs": 300}, "no answer within 300 ms"),
        ("print('x' * 100000)", {"maxBytes": 1000}, "more than 1000 bytes"),
        ("while True: print('x' * 100000)", {"maxBytes": 1000}, "more than 1000 bytes"),
        ("sys.exit(3)", {}, "exit code 3"),
        ("print('[]')", {}, "gave no secret"),
        ('print(\'{"values": {"id": 5}}\')', {}, "is not text"),
        ('print(\'{"values": {"id": ""}}\')', {}, "is empty"),
    ],
)
def test_a_command_that_misbehaves_gives_no_secret(
    tmp_path: Path, body: str, options: dict[str, object], reason: str
) -> None:
    secrets = resolver(tmp_path, tool=program(tmp_path, body, **options))
    with pytest.raises(SecretUnavailable, match=reason):
        secrets.resolve_secret(ref("exec", "id", "tool"))


def test_only_trusted_programs_are_run(tmp_path: Path) -> None:
    inside = tmp_path / "trusted"
    inside.mkdir()
    tool = program(tmp_path, "print('{}')", trustedDirs=[str(inside)])
    with pytest.raises(SecretUnavailable, match="trustedDirs"):
        resolver(tmp_path, tool=tool).resolve_secret(ref("exec", "id", "tool"))
    with pytest.raises(SecretUnavailable, match="absolute path"):
        resolver(tmp_path, tool={"source": "exec", "command": "provider"}).resolve_secret(ref("exec", "id", "tool"))
    writable = program(tmp_path, "print('{}')")
    (tmp_path / "provider").chmod(0o722)
    with pytest.raises(SecretUnavailable, match="changed by other users"):
        resolver(tmp_path, tool=writable).resolve_secret(ref("exec", "id", "tool"))


def test_a_reference_to_a_missing_or_wrong_place_says_so(tmp_path: Path) -> None:
    secrets = resolver(tmp_path, vault={"source": "env"})
    with pytest.raises(SecretUnavailable, match=r"no secrets.providers.gone"):
        secrets.resolve_secret(ref("env", "KEY", "gone"))
    with pytest.raises(SecretUnavailable, match="is of source 'env'"):
        secrets.resolve_secret(ref("file", "/a"))
    with pytest.raises(SecretUnavailable, match="for source 'store'"):
        secrets.resolve_secret(ref("store", "KEY"))
