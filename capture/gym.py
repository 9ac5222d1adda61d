"""NeMo Gym: this middleware in the place of Gym's own on its model servers, under Gym's own flags.

`replace_capture()`, called where a model server's module is imported, has Gym install this middleware instead of its
own; `replace_collection()`, called in the collecting process, has Gym settle a rollout before it merges its calls,
and clear with a fence. Nothing else here imports Gym. What is different is listed in docs/gym.md.
"""

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pipeline.log import log

from .config import CaptureConfig
from .errors import CaptureConfigError
from .gym_server import MODEL_TYPE, install
from .rollout import rollout_id_from_run
from .sources import of_environ
from .store import CaptureStore

ENABLED, DIRECTORY = "observability_enabled", "model_call_capture_dir"
"""Gym's run-wide flags."""
SEED_DIRECTORY, SEED_VARIABLE = "trajectory_capture_dir", "NEMO_GYM_TRAJECTORY_DIR"
"""Where its first form had the directory: a server's own setting, or the environment."""
TOKENS: Final = "token_id_capture"
"""Gym's block of settings for training tokens, which its own middleware records."""

FLUSH_MS: Final = 20
"""Gym merges a rollout as soon as its agent is done, so its last call is written sooner than by default."""
SETTLE_S: Final = 10.0

MODELS, COLLECTION = "nemo_gym.base_responses_api_model", "nemo_gym.rollout_collection"
INSTALL = "install_model_call_capture"
CLEAR, MERGE = "clear_model_call_captures_for_rollouts", "merge_model_call_capture_into_record"

_TOLD: Final[set[str]] = set()
"""What was warned of in this process; each once."""


def config_from_gym(
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    *,
    server: Mapping[str, Any] | None = None,
    server_name: str | None = None,
) -> CaptureConfig:
    """Return the settings that Gym's flags amount to; `CAPTURE_*` of `environ` sets all others.

    `flags` is Gym's global configuration, `server` the model server's own block, where the first form of Gym's
    capture had its flags. The directory is `model_call_capture_dir`, else the server's `trajectory_capture_dir`, else
    `NEMO_GYM_TRAJECTORY_DIR`. Enabled without any is off, with one warning in the process. Raises
    `CaptureConfigError` for a relative directory, which each server would take from its own folder, for training
    tokens, which only Gym's own middleware records, and for wrong `CAPTURE_*`.
    """
    own = server or {}
    enabled = bool(flags.get(ENABLED) or own.get(ENABLED))
    directory = flags.get(DIRECTORY) or own.get(SEED_DIRECTORY) or environ.get(SEED_VARIABLE) or None
    if enabled and _has_tokens(flags):
        raise CaptureConfigError([f"{TOKENS} is enabled; only Gym's own capture records training tokens"])
    if enabled and directory is not None and not Path(directory).is_absolute():
        raise CaptureConfigError(
            [f"{DIRECTORY}={str(directory)!r} is not absolute; servers run in folders of their own"]
        )
    if enabled and directory is None:
        _warn_once(
            "gym_capture_without_directory", hint=f"set {DIRECTORY} to an absolute path; capture is off"
        )
    settings = {
        "enabled": enabled and directory is not None,
        "directory": directory,
        "server_name": server_name,
    }
    if "flush_interval_ms" not in of_environ(environ):
        settings["flush_interval_ms"] = FLUSH_MS
    return CaptureConfig.load(
        environ, **{name: value for name, value in settings.items() if value is not None}
    )


def directories_from_gym(flags: Mapping[str, Any], environ: Mapping[str, str]) -> list[Path]:
    """Return where the model servers of a run record, as its collector looks for it: existing directories, each once.

    The run-wide one where there is one; else, in the first form of Gym's capture, that of the environment and those
    of the servers that have capture enabled. Enabled without any is warned of once in a process.
    """
    servers = [server for server in _model_servers(flags) if flags.get(ENABLED) or server.get(ENABLED)]
    if not flags.get(ENABLED) and not servers:
        return []
    named = [flags.get(DIRECTORY)]
    if not named[0]:
        named = [environ.get(SEED_VARIABLE), *(server.get(SEED_DIRECTORY) for server in servers)]
    found = list(dict.fromkeys(Path(name) for name in named if name and Path(name).is_dir()))
    if not found:
        _warn_once(
            "gym_capture_without_directory", hint=f"set {DIRECTORY} to an absolute path; nothing is read"
        )
    return found


def install_model_call_capture(
    app: Any,  # noqa: ANN401 - Gym's own signature
    config: Any,  # noqa: ANN401 - as above
    *,
    model_server_name: str | None = None,
    global_config_dict: Any = None,  # noqa: ANN401 - as above
    **_: object,
) -> None:
    """Do what Gym's function of this name does, with this middleware. `config` has Gym's two flags as attributes."""
    flags = {name: getattr(config, name, None) for name in (ENABLED, DIRECTORY)}
    flags[TOKENS] = (global_config_dict or {}).get(TOKENS)
    settings = config_from_gym(flags, os.environ, server_name=model_server_name)
    install(app, settings, model_server_name=model_server_name)


def replace_capture() -> None:
    """Have every model server that is set up in this process from now on install this middleware instead of Gym's.

    Raises ImportError where Gym is not installed, or has no such function (its release 0.7.0 has it).
    """
    setattr(_gym(MODELS, INSTALL), INSTALL, install_model_call_capture)


def replace_collection() -> None:
    """Have Gym's collection settle a rollout before it merges its calls, and clear with a fence.

    A second call changes nothing. Raises ImportError as `replace_capture` does.
    """
    module = _gym(COLLECTION, CLEAR, MERGE)
    merge = getattr(module, MERGE)
    if getattr(merge, "func", None) is not settle_and_merge:
        setattr(module, CLEAR, clear_rollouts)
        setattr(module, MERGE, functools.partial(settle_and_merge, merge))


def clear_rollouts(rows: Iterable[object], directories: Iterable[str | Path]) -> None:
    """Clear the rollouts of rows that are about to be dispatched, in every directory; rows without an id are left."""
    rollout_ids = [found for row in rows if (found := rollout_id_from_run(row)) is not None]
    for directory in directories:
        CaptureStore(directory).clear(rollout_ids)


def settle_and_merge(
    merge: Callable[..., Any],
    row: MutableMapping[str, Any],
    directories: Iterable[str | Path],
    **options: Any,  # noqa: ANN401 - Gym's own
) -> Any:  # noqa: ANN401 - whatever Gym's merge gives back
    """Settle a row's rollout in every directory, at most 10 s each, then merge it by Gym's own function."""
    rollout_id = rollout_id_from_run(row)
    directories = list(directories)
    for directory in directories if rollout_id is not None else ():
        CaptureStore(directory).settle(rollout_id, SETTLE_S)
    return merge(row, directories, **options)


def _model_servers(flags: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the blocks of model servers: `<instance>.responses_api_models.<implementation>`."""
    for instance in flags.values():
        kinds = instance.get(MODEL_TYPE) if isinstance(instance, Mapping) else None
        if isinstance(kinds, Mapping):
            yield from (server for server in kinds.values() if isinstance(server, Mapping))


def _has_tokens(flags: Mapping[str, Any]) -> bool:
    block = flags.get(TOKENS)
    return isinstance(block, Mapping) and bool(block.get("enabled"))


def _warn_once(event: str, **words: str) -> None:
    if event not in _TOLD:
        _TOLD.add(event)
        log.warning(event, **words)


def _gym(name: str, *attributes: str) -> ModuleType:
    module = import_module(name)
    missing = [attribute for attribute in attributes if not hasattr(module, attribute)]
    if missing:
        raise ImportError(f"this version of nemo-gym has no {name}.{missing[0]}; see docs/gym.md", name=name)
    return module
