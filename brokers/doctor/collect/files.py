"""Facts about files on this machine: secrets, certificates, a store of checkpoints, a configuration of mosquitto."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from distced.brokers.doctor.checks.files import CertificateFile, SecretFile, Store
from distced.brokers.doctor.checks.mosquitto_file import MosquittoFile, listens_at, parse_settings
from distced.brokers.live.checkpoint_store import LocalFolder
from distced.middleware.bus.access import Configuration
from distced.middleware.model.timestamps import SECOND

_OF_GROUP: Final = 0o070
"""Permissions of the group of a file."""

PROCESSES: Final = Path("/proc")


def secret_files(access: Configuration) -> list[SecretFile]:
    """Files of an access that are for one user alone."""
    named = (("the password file", access.password_file), ("the key", access.key), ("the Ray token", access.ray_token))
    return [_secret(what, path) for what, path in named if path]


def server_secrets(files: Mapping[str, str]) -> list[SecretFile]:
    """Files of a server that others may not read, by the names of its settings; its group may."""
    named = (("the key of the server", "keyfile"), ("the users of the server", "password_file"))
    found = [_secret(what, files[setting]) for what, setting in named if setting in files]
    return [replace(each, mode=each.mode & ~_OF_GROUP) for each in found]


def _secret(what: str, path: str) -> SecretFile:
    try:
        return SecretFile(what, path, Path(path).stat().st_mode)
    except OSError as error:
        return SecretFile(what, path, problem=error.strerror or str(error))


def certificate_files(access: Configuration) -> list[CertificateFile]:
    """Certificates of an access."""
    named = (("the certificate of this client", access.cert), ("the certificate of the authority", access.ca))
    return [certificate_file(what, path) for what, path in named if path]


def certificate_file(what: str, path: str) -> CertificateFile:
    """Validity of the certificate in a file that ends first."""
    try:
        from cryptography import x509
    except ImportError:
        problem = "certificates in files are read with cryptography, which is not installed"
        return CertificateFile(what, path, problem=problem, missing=True)
    try:
        found = x509.load_pem_x509_certificates(Path(path).read_bytes())
    except OSError as error:
        return CertificateFile(what, path, problem=error.strerror or str(error))
    except ValueError as error:
        return CertificateFile(what, path, problem=f"not PEM: {error}")
    first = min(found, key=lambda each: each.not_valid_after_utc)
    return CertificateFile(what, path, _instant(first.not_valid_before_utc), _instant(first.not_valid_after_utc))


def _instant(at: datetime) -> int:
    return int(at.timestamp()) * SECOND


def store(where: str) -> Store | None:
    """Store of checkpoints as it is now; None for `none`."""
    if where in ("", "none"):
        return None
    if "://" in where:
        return Store(where, remote=True)
    path = Path(where).expanduser().absolute()
    problem = ""
    try:
        LocalFolder(path).check()
    except OSError as error:
        problem = error.strerror or str(error)
    there = next(each for each in (path, *path.parents) if each.exists())
    free = total = 0
    with suppress(OSError):
        disk = shutil.disk_usage(there)
        free, total = disk.free, disk.total
    return Store(str(path), problem=problem, free=free, total=total, exists=path.exists())


def mosquitto_file(path: Path) -> MosquittoFile:
    """Configuration of mosquitto, with the files of its `include_dir`, which it reads behind it."""
    try:
        settings = parse_settings(path.read_text("utf-8", "replace"))
        for name, value in list(settings):
            if name == "include_dir":
                for further in sorted((path.parent / value).glob("*.conf")):
                    settings += parse_settings(further.read_text("utf-8", "replace"))
    except OSError as error:
        return MosquittoFile(str(path), problem=error.strerror or str(error))
    return MosquittoFile(str(path), tuple(settings))


def running_mosquitto(port: int, processes: Path = PROCESSES) -> MosquittoFile | None:
    """Configuration of the mosquitto that listens at a port of this machine, by the command lines of processes; None
    where there is none that can be read, or several."""
    found = {}
    for path in _configurations(processes):
        file = mosquitto_file(path)
        if not file.problem and listens_at(file.settings, port):
            found[file.path] = file
    return next(iter(found.values())) if len(found) == 1 else None


def _configurations(processes: Path) -> Iterator[Path]:
    for each in processes.glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = [os.fsdecode(word) for word in each.read_bytes().split(b"\0")]
            if Path(words[0]).name != "mosquitto" or "-c" not in words[:-1]:
                continue
            path = Path(words[words.index("-c") + 1])
            if path.is_absolute():
                yield path
            else:
                # Its folder is for its user alone to see.
                yield (each.parent / "cwd").readlink() / path
