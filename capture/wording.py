"""Values as a person reads them in a terminal: units, times, and nothing that the terminal would obey.

Recorded text is hostile: an escape sequence in a model's answer could recolour, retitle or rewrite what is on the
screen. Every character that is not for reading is written as Python would escape it.
"""

import unicodedata
from datetime import UTC, datetime

UNKNOWN = "-"
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Unicode categories: controls, formatting (it can reverse a line), half surrogates, and line and paragraph ends."""
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP = 1024
_MINUTE_S, _HOUR_S = 60, 3600
_SHORT = 10
"""Below this a tenth is worth its place."""


def plain(text: object, keep: str = "") -> str:
    """Return `text` with every character escaped that is not for reading, but for those in `keep`."""
    said = str(text)
    if said.isprintable():
        return said
    return "".join(sign if sign in keep or not _is_hidden(sign) else _escaped(sign) for sign in said)


def known(value: object) -> str:
    """Return a value for a table's cell; a dash for what is unknown."""
    return UNKNOWN if value is None else plain(value)


def moment(unix_s: float | None) -> str:
    """Return a time as date and time of day, to the second, in this machine's time zone."""
    if unix_s is None:
        return UNKNOWN
    try:
        return datetime.fromtimestamp(unix_s, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return str(unix_s)


def age(unix_s: float | None, now: float) -> str:
    """Return how long ago a time was."""
    return UNKNOWN if unix_s is None else span(max(0.0, now - unix_s))


def span(seconds: float) -> str:
    """Return a duration: `0.3 s`, `12 s`, `5 min`, `3.2 h`."""
    if seconds < _MINUTE_S:
        return f"{seconds:.1f} s" if seconds < _SHORT else f"{seconds:.0f} s"
    return f"{seconds / _MINUTE_S:.0f} min" if seconds < _HOUR_S else f"{seconds / _HOUR_S:.1f} h"


def milliseconds(value: float | None) -> str:
    """Return a duration in whole milliseconds; tenths where it is short."""
    if value is None:
        return UNKNOWN
    return f"{value:.1f}" if value < _SHORT else f"{value:.0f}"


def size(count: int) -> str:
    """Return a number of bytes with a binary unit."""
    amount, unit = float(count), 0
    while amount >= _STEP and unit < len(_UNITS) - 1:
        amount, unit = amount / _STEP, unit + 1
    return f"{count} B" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"


def _is_hidden(sign: str) -> bool:
    return unicodedata.category(sign) in _HIDDEN


def _escaped(sign: str) -> str:
    return sign.encode("unicode_escape").decode("ascii")
