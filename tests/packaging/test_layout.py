"""The layout keeps its promises: the folders at the top are the packages, and what is built holds all of them."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import tidegate

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("gateway", "adapters", "routing", "sessions", "agent_runtime", "config")


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_folder_is_the_package_of_its_name(folder: str) -> None:
    link = ROOT / "src" / "tidegate" / folder
    assert link.is_symlink()
    assert link.resolve() == ROOT / folder
    assert (ROOT / folder / "__init__.py").exists()


def test_every_module_imports_and_none_under_a_bare_name() -> None:
    code = (
        "import importlib, pkgutil, sys, tidegate\n"
        "for m in pkgutil.walk_packages(tidegate.__path__, 'tidegate.'):\n"
        "    if not m.name.endswith('__main__'): importlib.import_module(m.name)\n"
        f"bad = [n for n in sys.modules if n.split('.')[0] in {FOLDERS!r}]\n"
        "assert not bad, bad\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/", timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_start_without_channels_loads_no_channel_library_and_no_litellm() -> None:
    code = (
        "import sys, tidegate.gateway.lifecycle\n"
        "heavy = {'telegram', 'discord', 'slack_bolt', 'nio', 'litellm', 'apscheduler', 'httpx'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/", timeout=60)
    assert done.returncode == 0, done.stderr


def tracked() -> set[str]:
    """Return the files of the packages that git knows, by their name inside the package."""
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=True, timeout=60)
    found = set()
    for name in listed.stdout.splitlines():
        first, _, rest = name.partition("/")
        if first in FOLDERS:
            found.add(f"tidegate/{name}")
        elif name.startswith("src/tidegate/") and not (ROOT / name).is_symlink():
            found.add(name.removeprefix("src/"))
        del rest
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Build the source distribution, and the wheel from it."""
    folder = tmp_path_factory.mktemp("dist")
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert requires
    code = (
        "import os, sys, tarfile\n"
        "from setuptools import build_meta\n"
        "folder = sys.argv[1]\n"
        "name = build_meta.build_sdist(folder)\n"
        "tarfile.open(os.path.join(folder, name)).extractall(folder)\n"
        "os.chdir(os.path.join(folder, name.removesuffix('.tar.gz')))\n"
        "build_meta.build_wheel(folder)\n"
    )
    copy = folder / "tree"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(copy)], check=True, timeout=120)
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], cwd=copy, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))


def test_the_wheel_built_from_the_source_distribution_holds_every_file(built: tuple[Path, Path]) -> None:
    source, wheel = built
    clone = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", "HEAD"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        timeout=60,
    ).stdout.splitlines()
    wanted = {name for name in tracked() if name.removeprefix("tidegate/") in clone or f"src/{name}" in clone}
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if not name.split("/")[0].endswith(".dist-info")}
    assert wanted - inside == set()
    assert {name.split("/")[0] for name in inside} == {"tidegate"}
    with tarfile.open(source) as archive:
        assert any(member.endswith("tidegate/gateway/app.py") for member in archive.getnames())


def test_the_version_is_stated_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == tidegate.__version__
    assert importlib.import_module("tidegate").__path__
    assert [m.name for m in pkgutil.iter_modules(tidegate.__path__) if m.name == "gateway"] == ["gateway"]
