"""The closed list of flags: what was odd about an exchange, and what its record could not keep.

A flag is *odd* when the record still says everything that was on the wire, and *lossy* when it does not; then, and
only then, the raw bytes are kept beside the decoded form. Each flag is set by one rule. Lists of flags in a record
are sorted, so that equal exchanges give equal records.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """What a flag means for the record: `odd` is nothing lost, `lossy` is that the raw bytes hold more."""

    ODD = "odd"
    LOSSY = "lossy"


class Flag(NamedTuple):
    """One row: its kind, the side of the exchange whose bytes it speaks of, and what it says."""

    kind: Kind
    side: str
    meaning: str


def _odd(meaning: str, side: str = "response") -> Flag:
    return Flag(Kind.ODD, side, meaning)


def _lossy(meaning: str, side: str = "response") -> Flag:
    return Flag(Kind.LOSSY, side, meaning)


FLAGS: dict[str, Flag] = {
    # Bodies.
    "request_body_cut": _lossy(
        "The request was larger than is kept; size and digest are of the whole.", "request"
    ),
    "response_body_cut": _lossy("The response was larger than is kept; size and digest are of the whole."),
    "undecodable_request": _lossy(
        "The request is not JSON, or its content coding cannot be undone.", "request"
    ),
    "undecodable_response": _lossy(
        "The response is neither JSON nor events, or its coding cannot be undone."
    ),
    "request_not_object": _lossy("The request is JSON but no object.", "request"),
    "response_not_object": _lossy("The response is JSON but no object."),
    "lenient_request": _lossy(
        "The request is no strict JSON; what was read is stored, changed as little as possible.", "request"
    ),
    "lenient_response": _lossy("The response, or an event of it, is no strict JSON; it was read leniently."),
    "request_encoded": _odd("The request came with a content coding that was undone.", "request"),
    "response_encoded": _odd("The response came with a content coding that was undone."),
    "byte_order_mark": _odd("A byte order mark opened a body."),
    "surrogates_joined": _odd("Two events each held half of one character; they were joined."),
    "content_type_mismatch": _odd(
        "The declared media type is not what the first bytes say; the bytes were believed."
    ),
    # Streams.
    "undecodable_event": _lossy("An event's data is no JSON object."),
    "stray_line": _lossy("A line of the stream is no field of the standard."),
    "unterminated_event": _odd(
        "The stream's last event had no empty line behind it; it was read all the same."
    ),
    "unframed_event": _odd(
        "Events came without their field name or their empty line; each line was read as one."
    ),
    "empty_event": _odd("An event came without data; it says nothing."),
    "unknown_event": _lossy("The stream held an event whose meaning is unknown."),
    "sequence_gap": _odd("Sequence numbers of the stream skip or repeat."),
    "no_done": _odd("Every choice finished, but the stream's end mark is missing."),
    "no_finish_reason": _odd("The end mark came, but a choice never said why it finished."),
    "no_stop_event": _odd("A stop reason came, but the stream's terminal event is missing."),
    "after_terminal": _odd("Events came after the stream's terminal event; they were read all the same."),
    "repeated_start": _lossy("The stream started again as another message; the first start was kept."),
    "duplicate_start": _odd("The stream's start came twice; it was merged."),
    "unopened_item": _odd(
        "A delta named an item, block or part that was never opened; it was opened for it."
    ),
    "late_delta": _lossy("A delta came for an item that was already closed."),
    "repeated_index": _odd("An index was used again for another item; both are kept."),
    "signature_replaced": _lossy("A block's signature came again and was another; the last one was kept."),
    "unexpected_shape": _lossy(
        "A member has a type that its dialect does not allow; it could not be merged."
    ),
    "items_recovered": _odd(
        "The terminal event came without the items that were streamed; they were put in."
    ),
    # Choices and tool calls.
    "choice_without_index": _odd("A choice came without its index; it was read as choice 0."),
    "tool_index_missing": _odd("A tool call came without its index; id and order told the calls apart."),
    "tool_index_shared": _odd("Different tool calls came under one index; their ids told them apart."),
    "tool_name_repeated": _odd("A tool call's whole name came again; it was kept once."),
    "identity_changed": _odd("An id changed inside one stream; the first was kept."),
    "invalid_arguments": _odd("A tool call's arguments are no JSON; they are kept as the string they were."),
    # Account and edge.
    "bad_usage_value": _odd(
        "A token count is no natural number; it is unknown in `usage`, verbatim in `response`."
    ),
    "double_start": _odd("The application started a second response; the first status was kept."),
    "capture_parse_error": _lossy("Capture itself failed on this exchange; nothing of it was decoded."),
}


def is_lossy(flags: Iterable[str], side: str) -> bool:
    """Whether one of these flags says that the decoded form of `side` ("request", "response") lost something."""
    return not _LOSSY[side].isdisjoint(flags)


_LOSSY = {
    side: frozenset(name for name, row in FLAGS.items() if row.side == side and row.kind is Kind.LOSSY)
    for side in ("request", "response")
}
"""Side of the exchange to the flags that say that its decoded form lost something."""
