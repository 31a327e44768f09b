"""What a run is made with, as far as it decides about numbers: versions, the starting model, the environment's data."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import seal
from seal.engines.whole import file_sum
from seal.models.load import adapter_base
from seal.models.vllm_install import vllm_version
from seal.task import Environment

VERL = ("verl", "ray", "tensordict", "TransferQueue", "vllm", "sglang")
"""Those of the engine verl besides."""

PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "tokenizers", "numpy")
"""Distributions that compute, or decide what is computed."""

_NOT_THE_MODEL = (".md", ".png", ".jpg", ".gitattributes")


def origin(
    source: Path | str,
    model: Any,
    environment: Environment,
    *,
    sampler: str = "transformers",
    engine: Literal["trl", "verl"] = "trl",
) -> dict[str, str]:
    """What a run is made with.

    Args:
        source: Where the model was loaded from, as `seal.models.load.model_directory` found it.
        model: The loaded model; its device is told. None where other processes load it.
        environment: Its data is told if it says where that is (`data_files`).
        sampler: `vllm`: its version is told.
        engine: `verl`: the versions of its packages are told.

    Returns:
        Name -> version or hash, for people and for comparison.
    """
    found = {"python": platform.python_version(), "machine": platform.machine()}
    found["seal"] = f"{seal.__version__} {_code()}"
    for name in PACKAGES + (VERL if engine == "verl" else ()):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    if sampler == "vllm":
        found["vllm"] = vllm_version()
    if model is not None:
        found["device"] = _device(model)
    found["model"] = _model(source, model)
    files = getattr(environment, "data_files", None)
    if files is not None:
        found["environment data"] = _files(files())
    return found


@cache
def _code() -> str:
    """A hash of this package's own code as far as it computes: a version number stays the same between two commits."""
    home = Path(seal.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(home.rglob("*.py")):
        if path.relative_to(home).parts[0] in ("cli", "logs", "ablate", "report", "hub"):
            continue
        digest.update(path.relative_to(home).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"(code {digest.hexdigest()[:12]})"


def _device(model: Any) -> str:
    if model.device.type != "cuda":
        return str(model.device.type)
    import torch  # noqa: PLC0415 -- heavy

    return f"cuda ({torch.cuda.get_device_name(model.device)})"


def _model(source: Path | str, model: Any) -> str:
    """A hash of the model's files; of a model from the hub, the commit, which names them."""
    directory = Path(source)
    if not directory.is_dir():
        return f"{source} at commit {getattr(model.config, '_commit_hash', None) or 'unknown'}"
    files = [p for p in directory.iterdir() if p.is_file() and not p.name.startswith(".")]
    found = _files([p for p in files if p.suffix.lower() not in _NOT_THE_MODEL])
    base = adapter_base(directory)
    return f"{found} on {_model(base, model)}" if base is not None else found


def _files(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.name}\0{file_sum(path)['sha256']}\0".encode())
    return f"SHA-256 {digest.hexdigest()[:16]}"
