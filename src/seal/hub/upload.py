"""Pushing a run's best checkpoint with its card, as one commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seal.engines.checkpoints import BEST, prove_export
from seal.errors import ConfigError, DataError, MissingError
from seal.hub.card import HUB_ID, model_card
from seal.redact import Redactor
from seal.trace import read_json


def check(run: Path, name: str) -> None:
    """Refuse what could not be used by anybody who gets it.

    Raises:
        ConfigError: If the name is none, or an adapter's base is a path of this machine.
        MissingError: If there is no checkpoint.
        DataError: If the checkpoint is damaged.
    """
    if not HUB_ID.fullmatch(name):
        raise ConfigError(f"a model on the hub is called OWNER/NAME, got {name!r}")
    best = run / "checkpoints" / "best"
    if not best.is_dir():
        raise MissingError(f"the run in {run} has no checkpoints/best; finish it with: seal train --resume --run {run}")
    prove_export(run)
    if (best / "adapter_config.json").is_file():
        settings = read_json(best / "adapter_config.json")
        base = settings.get("base_model_name_or_path") if isinstance(settings, dict) else None
        if not isinstance(base, str):
            raise DataError(f"{best / 'adapter_config.json'} names no base model")
        if not HUB_ID.fullmatch(base) or Path(base).exists():
            raise ConfigError(
                f"{best} is an adapter on {base}, which only this machine has: nobody could load it. Push that model "
                "first and put its OWNER/NAME into base_model_name_or_path of adapter_config.json, or train with "
                "lora.enabled = false"
            )


def push(run: Path, name: str, *, public: bool) -> dict[str, Any]:
    """Upload the best checkpoint and its card.

    Args:
        run: A finished run.
        name: OWNER/NAME; made if it is not there, else it gets another commit.
        public: Whether anybody may read it.

    Returns:
        `url`, `commit`, `private`, `files`.

    Raises:
        ConfigError: If the hub refuses, or the repository is public and `public` was not said.
        MissingError: If the hub cannot be reached, or wants a token that is not there.
    """
    from huggingface_hub import CommitOperationAdd, HfApi  # noqa: PLC0415 -- takes a second to import

    card = model_card(run, name)
    best = run / "checkpoints" / "best"
    files = sorted(path for path in best.rglob("*") if path.is_file() and path.name not in (BEST, "README.md"))
    operations = [CommitOperationAdd("README.md", card.encode())]
    operations += [CommitOperationAdd(path.relative_to(best).as_posix(), str(path)) for path in files]
    api = HfApi()
    with _hub(name):
        api.create_repo(name, private=not public, exist_ok=True)
        private = bool(api.model_info(name).private)
        if not private and not public:
            raise ConfigError(f"{name} is there and public; say --public to push to it, or choose another name")
        commit = api.create_commit(name, operations, commit_message="A run of SEAL")
    return {
        "url": str(commit.repo_url),
        "commit": commit.oid,
        "private": private,
        "files": ["README.md", *(path.relative_to(best).as_posix() for path in files)],
    }


@contextmanager
def _hub(name: str) -> Iterator[None]:
    """Turn what the hub and the network say into one message, without the token."""
    from huggingface_hub import get_token  # noqa: PLC0415
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled  # noqa: PLC0415

    token = get_token()
    hide = Redactor([token] if token else [])
    try:
        yield
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else None
        why = hide(" ".join(str(error.server_message or error).split()))[:300]
        if status in (401, 403) and not token:
            raise MissingError(
                f"the hub wants to know who you are: hf auth login, or set HF_TOKEN ({status})"
            ) from None
        raise ConfigError(f"the hub refuses {name} ({status}): {why}. Is it yours, and may your token write?") from None
    except (OfflineModeIsEnabled, HFValidationError) as error:
        raise ConfigError(f"{name}: {hide(' '.join(str(error).split()))}") from None
    except OSError as error:
        raise MissingError(f"the hub cannot be reached: {hide(' '.join(str(error).split()))[:300]}") from None
    except Exception as error:
        # Which of httpx, httpx2 and requests carries it is the hub client's affair.
        if not any(kind.__name__ in ("TransportError", "RequestException") for kind in type(error).__mro__):
            raise
        raise MissingError(f"the hub cannot be reached: {hide(' '.join(str(error).split()))[:300]}") from None
