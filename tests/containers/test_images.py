"""The images: small, without root, and with nothing in their layers that is not meant to be there."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator

import pytest

from tests.support.docker_engine import Engine, pinned, run

pytestmark = [pytest.mark.containers, pytest.mark.timeout(1800)]

MOST = {"distced": 850_000_000, "distced-mosquitto": 100_000_000}
"""Size of an image at most, bytes."""

SETTINGS = ("index-url", "extra-index-url", "trusted-host", "proxy", "cert", "find-links")
"""Settings of pip that no image has."""


def python(engine: Engine, image: str, code: str) -> str:
    return engine("run", "--rm", "--entrypoint", "python", image, "-c", code)


def names_in_layers(engine: Engine, image: str) -> Iterator[str]:
    """Paths in all layers of an image, those of files deleted by a later layer too."""
    with subprocess.Popen([engine.command, "image", "save", image], stdout=subprocess.PIPE) as saving:
        assert saving.stdout is not None
        with tarfile.open(fileobj=saving.stdout, mode="r|") as saved:
            for part in saved:
                file = saved.extractfile(part) if part.isfile() else None
                # Layers are archives in the archive, under names that depend on the version of the engine.
                if file is not None and not part.name.endswith((".json", "json", "VERSION", "repositories")):
                    with tarfile.open(fileobj=io.BytesIO(file.read())) as layer:
                        yield from layer.getnames()


def test_image_is_small_and_has_no_root(engine: Engine, images: tuple[str, str]) -> None:
    for image in images:
        described = json.loads(engine("image", "inspect", image))[0]
        assert described["Size"] < MOST[image.partition(":")[0]]
        assert described["Config"]["User"] not in ("", "root", "0")
        assert engine("run", "--rm", "--entrypoint", "id", image, "-u") != "0"


def test_image_has_the_packages_of_the_lock(engine: Engine, images: tuple[str, str]) -> None:
    code = "from importlib.metadata import distributions as d; print(*(f'{e.name}=={e.version}' for e in d()))"
    installed = dict(each.split("==") for each in python(engine, images[0], code).lower().split())
    assert installed.pop("distced")
    # The lock is read with the markers of this machine's Python.
    if f"{sys.version_info[0]}.{sys.version_info[1]}" == "3.11":
        locked = {name.lower(): version for name, version in pinned().items() if name != "setuptools"}
        assert {name.replace("_", "-"): version for name, version in installed.items()} == locked


def test_image_runs_the_verbs_and_the_columnar_engine(engine: Engine, images: tuple[str, str]) -> None:
    assert engine("run", "--rm", images[0], "--version").startswith("distced ")
    for verb in ("broker", "record", "publish", "subscribe", "nodes", "demo"):
        assert "Usage: distced" in engine("run", "--rm", images[0], verb, "--help")
    # Compiled when the image was built, and found by a user who cannot write to the packages.
    code = "from distced.detectors.columnar.loop import is_compiled; print(is_compiled())"
    assert python(engine, images[0], code) == "True"


@pytest.mark.slow
def test_settings_of_the_package_index_are_in_no_layer(engine: Engine, images: tuple[str, str]) -> None:
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    values = [
        value.strip("'")
        for name, _, value in (line.partition("=") for line in listed.stdout.splitlines())
        if name.rpartition(".")[2] in SETTINGS
    ]
    for image in images:
        history = engine("history", "--no-trunc", "--format", "{{.CreatedBy}}", image)
        assert [value for value in values if value in history] == []
        unwanted = (
            "pip.conf",
            "ca.pem",
            "requirements.lock",
            "distced/lib/python3.11/site-packages/pip",
            "var/lib/apt/lists/",
            ".cache/pip",
        )
        found = {
            name
            for name in names_in_layers(engine, image)
            if any(each in name for each in unwanted) and not name.endswith((".wh..wh..opq", "lists/"))
        }
        assert sorted(found) == []


def test_mqtt_server_without_a_deployment_lets_in_nobody(engine: Engine, images: tuple[str, str]) -> None:
    # With one it becomes healthy, which nodes of the deployment wait for.
    done = run(engine.command, "run", "--rm", "--network", "none", images[1])
    assert done.returncode != 0
    assert "mosquitto.conf" in done.stdout + done.stderr
