"""The distribution `onthedot` has what users need; `onthedot-verify` has the tools that test stores."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import pytest

import onthedot
from tests.architecture.source import PACKAGE, ROOT, VERIFY, python_files

VERSION = onthedot.__version__
PARTS = ("checker", "contract", "simulation")
SAFELY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from Python 3.11.4 on


class Wheel(NamedTuple):
    files: dict[str, bytes]
    info: str
    """The name of the metadata folder."""

    @property
    def modules(self) -> set[str]:
        return {name for name in self.files if name.endswith(".py")}

    @property
    def metadata(self) -> Message:
        return Parser().parsestr(self.files[f"{self.info}/METADATA"].decode())


def build(project: Path, folder: Path) -> None:
    """Build the sdist and the wheel of a project with the installed tools, without downloads."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(folder)]
    built = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=100, check=False)
    assert built.returncode == 0, built.stdout + built.stderr


def open_wheel(folder: Path, name: str) -> Wheel:
    with ZipFile(folder / f"{name}-{VERSION}-py3-none-any.whl") as archive:
        return Wheel({file: archive.read(file) for file in archive.namelist()}, f"{name}-{VERSION}.dist-info")


def unpack(folder: Path, name: str, to: Path) -> Path:
    """Unpack an sdist, and return its folder."""
    with tarfile.open(folder / f"{name}-{VERSION}.tar.gz") as archive:
        archive.extractall(to, **SAFELY)  # noqa: S202 - our own archive
    return to / f"{name}-{VERSION}"


def sources(package: Path) -> set[str]:
    return {path.relative_to(package.parent).as_posix() for path in python_files(package)}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both distributions."""
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, folder)
    build(VERIFY, folder)
    return folder


@pytest.mark.slow
def test_the_wheel_of_onthedot_has_the_package_and_the_plugin(dist: Path):
    wheel = open_wheel(dist, "onthedot")
    assert wheel.modules == sources(PACKAGE) | {"onthedot_pytest.py"}
    assert {f"onthedot/testing/{name}.py" for name in ("harness", "fixture", "store_wrapper")} <= wheel.modules
    assert not [name for name in wheel.files if name.startswith(tuple(f"onthedot/testing/{part}" for part in PARTS))]
    assert not [name for name, content in wheel.files.items() if b"import onthedot_verify" in content]
    assert not [name for name, content in wheel.files.items() if b"from onthedot_verify" in content]


@pytest.mark.slow
def test_the_wheel_of_onthedot_verify_has_only_the_test_tools(dist: Path):
    wheel = open_wheel(dist, "onthedot_verify")
    assert wheel.modules == sources(VERIFY / "onthedot_verify")
    assert {f"onthedot_verify/{part}/__init__.py" for part in PARTS} <= wheel.modules
    assert {name.partition("/")[0] for name in wheel.files} == {"onthedot_verify", wheel.info}
    assert not wheel.files.keys() & open_wheel(dist, "onthedot").files.keys()
    assert wheel.metadata["Name"] == "onthedot-verify"
    assert wheel.metadata.get_all("Requires-Dist") == [f"onthedot=={VERSION}"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["onthedot", "onthedot_verify"])
def test_a_wheel_has_its_license(dist: Path, name: str):
    wheel = open_wheel(dist, name)
    assert wheel.metadata["License-Expression"] == "Apache-2.0"
    assert wheel.metadata.get_all("License-File") == ["LICENSE"]
    assert wheel.files[f"{wheel.info}/licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["onthedot", "onthedot_verify"])
def test_an_sdist_makes_the_same_wheel(dist: Path, name: str, tmp_path: Path):
    unpacked = unpack(dist, name, tmp_path)
    assert (unpacked / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    build(unpacked, tmp_path)
    assert open_wheel(tmp_path, name) == open_wheel(dist, name)


@pytest.mark.slow
def test_the_sdist_of_onthedot_has_what_its_tests_need(dist: Path, tmp_path: Path):
    unpacked = unpack(dist, "onthedot", tmp_path)
    for folder in ("src", "verify", "tests", "bench", "examples"):
        here, there = python_files(ROOT / folder), python_files(unpacked / folder)
        assert [path.relative_to(ROOT) for path in here] == [path.relative_to(unpacked) for path in there]
    assert (unpacked / "verify" / "pyproject.toml").is_file()


def project(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return found


def test_both_distributions_have_the_same_version():
    assert [project(ROOT)["version"], project(VERIFY)["version"]] == [VERSION, VERSION]
    assert project(VERIFY)["dependencies"] == [f"onthedot=={VERSION}"]
    assert project(VERIFY)["requires-python"] == project(ROOT)["requires-python"]


def test_both_distributions_have_the_same_license():
    assert (VERIFY / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
