"""The wheel in an empty environment, beside an application with folders of the names of the five packages."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode

pytestmark = [pytest.mark.mqtt, pytest.mark.spawn, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
FOLDERS = ("middleware", "detectors", "policies", "brokers", "simulations")


def run(*command: str | Path, cwd: Path, timeout: float = 240) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=timeout, check=False)
    if done.returncode and "No matching distribution found" in done.stderr:
        pytest.skip("no package index is reached: the dependencies of the wheel cannot be installed")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Built from a copy: what an earlier build left beside the sources would come along.
    folder, sources = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("sources")
    for name in ("distced", *FOLDERS):
        shutil.copytree(ROOT / name, sources / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, sources, cwd=folder)
    (made,) = folder.glob("distced-*.whl")
    return made


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds the wheel and what it asks for."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    interpreter = folder / "bin" / "python"
    uv = Path(sys.executable).with_name("uv")
    if uv.exists():
        # It has the packages of this environment at hand. What it cannot do, pip does or explains.
        made = subprocess.run([uv, "pip", "install", "--quiet", "--python", interpreter, wheel], capture_output=True)
        if made.returncode == 0:
            return interpreter
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", interpreter)
    run(*pip, "install", "--quiet", "--no-compile", wheel, cwd=folder)
    return interpreter


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """An application with a `middleware` of its own, and four more such names."""
    for name in FOLDERS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"OWNER = 'application {name}'\n", encoding="utf-8")
    return tmp_path


def test_wheel_has_one_package(wheel: Path) -> None:
    top = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"distced"}


def test_wheel_has_every_module_and_data_file(wheel: Path) -> None:
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("distced/")}
    files = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*") if "__pycache__" not in path.parts)
    assert {f"distced/{path.relative_to(ROOT)}" for path in files if path.is_file()} <= inside
    assert {"distced/py.typed", *(f"distced/{name}/py.typed" for name in FOLDERS)} <= inside


def test_wheel_has_its_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    (licence,) = (name for name in names if name.endswith(".dist-info/licenses/LICENSE"))
    assert zipfile.ZipFile(wheel).read(licence).startswith(b"MIT License")


def test_packages_of_an_application_stay_its_own(python: Path, application: Path) -> None:
    code = f"import distced.middleware, {', '.join(FOLDERS)}; print(*(each.OWNER for each in ({', '.join(FOLDERS)})))"
    said = run(python, "-c", code, cwd=application)
    assert said.split() == [word for name in FOLDERS for word in ("application", name)]


def test_readme_runs_beside_an_application(python: Path, application: Path, mosquitto: Server, root: str) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    address = "mqtt://127.0.0.1:1883"
    assert code.count(address) == 1
    (application / "readme.py").write_text(
        code.replace(f'"{address}"', f'"{mosquitto.url}", root="{root}"'), encoding="utf-8"
    )
    with LiveNode(mosquitto.url, f"{root}-n", root=root):
        said = run(python, "readme.py", cwd=application)
    assert re.search(r"Met.*one='Jean'.*other='Peter'|'one': 'Jean', 'other': 'Peter'", said), said


def test_wheel_installs_the_command(python: Path, application: Path) -> None:
    code = (
        "from importlib.metadata import entry_points\n"
        "(command,) = entry_points(group='console_scripts', name='distced')\n"
        "raise SystemExit(command.load()(['--version']))"
    )
    assert run(python, "-c", code, cwd=application).startswith("distced ")
