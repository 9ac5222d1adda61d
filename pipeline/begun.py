"""JSON that stops anywhere, as the input of a tool does whose stream was cut: what of it is whole. Pure.

The official Messages SDK shows such input as an object with the members and entries that are whole. So it is done
here: the text is cut behind the last value that is complete, what is open is closed, and the rest is ordinary JSON.
"""

import re
from typing import Any

from pipeline.bodies import MAX_DEPTH, BodyError, decode_text

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|["{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_COMPLETE = re.compile(r'".*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null', re.DOTALL)
"""A token that says all it can say where the text stops behind it; `1.` and `tru` do not."""

_CLOSERS = {"{": "}", "[": "]"}
_OPEN_STRING = '"'


def decode_begun(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Decode what is whole of a JSON text; what follows a whole text is passed over.

    Raises BodyError where the text is not the beginning of any.
    """
    reading = _Reading()
    for token in _TOKEN.finditer(text):
        if not reading.take(token[0], token.end(), last=token.end() == len(text)):
            break
    return decode_text(text[: reading.end] + reading.closing)


class _Reading:
    """How far a text is whole: the end of its last complete value, and what closes all that is open there."""

    def __init__(self) -> None:
        self.end = 0
        self.closing = ""
        self._closers = ""
        self._is_value = True

    def take(self, piece: str, end: int, *, last: bool) -> bool:
        """Take in a token that ends here; return whether to go on."""
        if piece in {",", ":"}:
            self._is_value = piece == ":" or self._closers.startswith("]")
            return True
        if piece in _CLOSERS:
            self._closers = _CLOSERS[piece] + self._closers
        elif self._closers.startswith(piece):
            self._closers = self._closers[1:]
        elif piece == _OPEN_STRING:
            return False
        elif not self._is_value or (last and not _COMPLETE.fullmatch(piece)):
            return True
        self.end, self.closing = end, self._closers
        self._is_value = piece == "["
        if len(self._closers) > MAX_DEPTH:
            raise BodyError("nested too deeply")
        return self._closers != ""
