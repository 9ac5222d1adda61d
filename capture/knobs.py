"""What a setting is: its default, how it is read from text or a value, what is allowed, and why it is so.

A `Form` reads one kind of value (a size, a mode, labels) from whatever a keyword argument, a TOML file or an
environment variable gives, and shows it again in a way that it would read. `knob` puts a form, a default and a
reason on a field of `CaptureConfig`; parsing, checking, `explain()` and the documentation all come from there.
Forms raise ValueError without words of their own: whoever calls them knows the setting's name and says it.
"""

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

ENVIRONMENT_PREFIX: Final = "CAPTURE_"


class Form(NamedTuple):
    """One kind of value: `read` makes it from text or a value or raises ValueError, `show` is its text form."""

    allowed: str
    read: Callable[[Any], Any]
    show: Callable[[Any], str] = str


class Knob(NamedTuple):
    """One setting, as the documentation lists it."""

    name: str
    default: Any
    form: Form
    reason: str

    @property
    def environment(self) -> str:
        """Name of the environment variable that sets it."""
        return ENVIRONMENT_PREFIX + self.name.upper()


def knob(default: object, form: Form, reason: str) -> Any:  # noqa: ANN401 - the type of the field it stands on
    """Declare a field of a dataclass as a setting."""
    value = default if default is None else form.read(default)
    return dataclasses.field(
        default_factory=lambda: value,
        hash=not isinstance(value, Mapping),
        metadata={"default": value, "form": form, "reason": reason},
    )


def knobs_of(config: type) -> dict[str, Knob]:
    """List the settings of a dataclass by name, in their order."""
    return {
        field.name: Knob(field.name, **field.metadata)
        for field in dataclasses.fields(config)
        if field.metadata
    }


_TRUE = frozenset(("1", "true", "yes", "on"))
_FALSE = frozenset(("0", "false", "no", "off"))


def boolean() -> Form:
    """Make the form of a switch."""

    def read(value: object) -> bool:
        if isinstance(value, bool):
            return value
        low = _text(value).lower()
        if low not in _TRUE | _FALSE:
            raise ValueError
        return low in _TRUE

    return Form("true or false (also 1/0, yes/no, on/off)", read, lambda value: "true" if value else "false")


def integer(low: int, high: int) -> Form:
    """Make the form of a whole number within bounds."""

    def read(value: object) -> int:
        return _within(_whole(value), low, high)

    return Form(f"a whole number from {low} to {high}", read)


_UNITS: Final = {"": 1, "b": 1} | {
    f"{letter}{infix}b": base**power
    for infix, base in (("i", 1024), ("", 1000))
    for power, letter in enumerate("kmgt", 1)
}
_SIZE: Final = re.compile(r"([0-9]+)\s*([kmgt]?i?b?)", re.IGNORECASE)


def size(low: int, high: int) -> Form:
    """Make the form of a number of bytes within bounds."""

    def read(value: object) -> int:
        if not isinstance(value, str):
            return _within(_whole(value), low, high)
        found = _SIZE.fullmatch(value.strip())
        if found is None or found[2].lower() not in _UNITS:
            raise ValueError
        return _within(int(found[1]) * _UNITS[found[2].lower()], low, high)

    return Form(f"a size from {show_size(low)} to {show_size(high)}, as bytes or like 64MiB", read, show_size)


def show_size(value: int) -> str:
    """Give a number of bytes in the largest binary unit that divides it: `64MiB`, `1000`."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        count, rest = divmod(value, _UNITS[unit.lower()])
        if value and not rest:
            return f"{count}{unit}"
    return str(value)


def mode(least: int) -> Form:
    """Make the form of permission bits; the owner keeps at least the bits of `least`."""

    def read(value: object) -> int:
        bits = int(value, 8) if isinstance(value, str) else _whole(value)
        if bits & least != least or bits & ~0o777:
            raise ValueError
        return bits

    return Form(f"octal permissions up to 0777 that include 0{least:o}", read, lambda bits: f"{bits:04o}")


def choice(*names: str) -> Form:
    """Make the form of one word of a few."""

    def read(value: object) -> str:
        if (low := _text(value).lower()) not in names:
            raise ValueError
        return low

    return Form(" or ".join(names), read)


def pattern(allowed: str, expression: str) -> Form:
    """Make the form of a text that matches a regular expression as a whole."""
    compiled = re.compile(expression)

    def read(value: object) -> str:
        if compiled.fullmatch(text := _text(value)) is None:
            raise ValueError
        return text

    return Form(allowed, read, _show_text)


def folder() -> Form:
    """Make the form of a directory; made absolute from the working directory, `~` not expanded."""

    def read(value: object) -> str:
        text = os.fspath(value) if isinstance(value, os.PathLike) else value
        if not isinstance(text, str) or not text or text.startswith("~") or "\0" in text:
            raise ValueError
        return os.path.abspath(text)  # noqa: PTH100 - Path.absolute keeps `..`, resolve follows links

    return Form("the path of a directory (`~` is not expanded)", read, _show_text)


def names(allowed: str, expression: str, refused: Iterable[str] = ()) -> Form:
    """Make the form of a list of lower-case names, `a,b` in text."""
    compiled, never = re.compile(expression), frozenset(refused)

    def read(value: object) -> tuple[str, ...]:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, (list, tuple)):
            raise TypeError
        found = tuple(dict.fromkeys(_text(part).lower() for part in parts))
        if any(compiled.fullmatch(name) is None or name in never for name in found):
            raise ValueError
        return found

    return Form(allowed, read, ",".join)


def mapping(allowed: str, key: str, value: str) -> Form:
    """Make the form of pairs, `a=b,c=d` in text; keys and values match an expression each."""
    key_pattern, value_pattern = re.compile(key), re.compile(value)

    def read(given: object) -> Mapping[str, str]:
        pairs = _pairs(given) if isinstance(given, str) else given
        if not isinstance(pairs, Mapping):
            raise TypeError
        for name, said in pairs.items():
            if key_pattern.fullmatch(name) is None or value_pattern.fullmatch(said) is None:
                raise ValueError
        return MappingProxyType(dict(pairs))

    return Form(allowed, read, lambda pairs: ",".join(f"{name}={said}" for name, said in pairs.items()))


def _pairs(text: str) -> dict[str, str]:
    pairs = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, found, said = part.partition("=")
        if not found or name in pairs:
            raise ValueError
        pairs[name.strip()] = said.strip()
    return pairs


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value.strip()


def _show_text(value: str | None) -> str:
    return "" if value is None else value


def _whole(value: object) -> int:
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value


def _within(value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise ValueError
    return value
