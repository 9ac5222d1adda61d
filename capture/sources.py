"""Where settings are written: keyword arguments, environment variables, a TOML file. And how they are merged.

Each source becomes a layer: name to what was given, with the name as its author wrote it, for messages. Merging
takes each setting from the first layer that has it and reads it by its form; it finds every wrong value and
unknown name of all layers before it raises, so that one start tells everything.
"""

import os
import reprlib
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from capture.errors import CaptureConfigError
from capture.knobs import ENVIRONMENT_PREFIX, Knob

CONFIG_VARIABLE: Final = "CAPTURE_CONFIG"
"""Names the TOML file; no setting itself."""

APP_VARIABLE: Final = "CAPTURE_APP"
"""Names the application that `capture.asgi` wraps; no setting itself."""


class Given(NamedTuple):
    """A value as somebody wrote it: `source` for `explain()`, `label` the name they used."""

    value: Any
    source: str
    label: str


Layer: TypeAlias = dict[str, Given]


def of_arguments(settings: Mapping[str, object]) -> Layer:
    """Make a layer of keyword arguments."""
    return {name: Given(value, "argument", name) for name, value in settings.items()}


def of_environ(environ: Mapping[str, str]) -> Layer:
    """Make a layer of the `CAPTURE_*` variables. An empty one counts as not set, as compose files write it."""
    return {
        name.removeprefix(ENVIRONMENT_PREFIX).lower(): Given(value, f"environment {name}", name)
        for name, value in environ.items()
        if name.startswith(ENVIRONMENT_PREFIX)
        and name not in {CONFIG_VARIABLE, APP_VARIABLE}
        and value.strip()
    }


def of_toml(path: str | os.PathLike[str]) -> Layer:
    """Make a layer of a TOML file: of its table `capture` where it has one, else of its top level.

    Raises `CaptureConfigError` with the path and the reason where the file cannot be read.
    """
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CaptureConfigError([f"the settings file {os.fspath(path)} cannot be read: {reason}"]) from error
    table = found.get("capture", found)
    if not isinstance(table, dict):
        raise CaptureConfigError([f"capture in {os.fspath(path)} is {_short(table)}; allowed: a table"])
    source = f"file {os.fspath(path)}"
    return {name: Given(value, source, f"{name} in {os.fspath(path)}") for name, value in table.items()}


def merge(known: Mapping[str, Knob], layers: Iterable[Layer]) -> tuple[dict[str, Any], dict[str, str]]:
    """Give the values and their sources, by name, the first layer winning; what no layer has is left out.

    Raises `CaptureConfigError` with every unknown name and every wrong value, those that are overridden too.
    """
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    problems: list[str] = []
    for layer in layers:
        for name, given in layer.items():
            try:
                value = _value(known, name, given)
            except CaptureConfigError as error:
                problems += error.problems
                continue
            if name not in values:
                values[name], sources[name] = value, given.source
    if problems:
        raise CaptureConfigError(problems)
    return values, sources


def _value(known: Mapping[str, Knob], name: str, given: Given) -> object:
    if name not in known:
        raise CaptureConfigError([_unknown(known, name, given)])
    if given.value is None and known[name].default is None:
        return None
    try:
        return known[name].form.read(given.value)
    except (TypeError, ValueError) as error:
        allowed = known[name].form.allowed
        raise CaptureConfigError([f"{given.label} is {_short(given.value)}; allowed: {allowed}"]) from error


def _unknown(known: Mapping[str, Knob], name: str, given: Given) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = (
        f"did you mean {given.label.replace(name, close[0])}?"
        if close
        else "docs/configuration.md lists them"
    )
    if close and given.source.startswith("environment"):
        hint = f"did you mean {known[close[0]].environment}?"
    return f"{given.label} is no setting; {hint}"


def _short(value: object) -> str:
    return reprlib.repr(value)
