"""The commands that need no directory: what a stream of bytes amounts to, and the schemas of what is stored.

Like all commands they take the parsed options and the environment, write their answer to stdout and return an exit
code. `reassemble` reads stdin to its end.
"""

import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pipeline.flags import FLAGS, is_lossy

from .commands import MISSING, OK
from .readable import document, lines
from .reading import StoredRecord
from .reassembly import reassemble as reassembled
from .schema import schema_text
from .wording import known

NAMED = ("complete", "finish", "finish_reason", "usage", "error", "tool_calls")
"""The members of the record that say what a response amounts to, beside the response itself."""


def schema(options: Namespace, _environ: Mapping[str, str]) -> int:
    """Print one of the JSON Schemas that the distribution holds."""
    text = schema_text(options.name)
    sys.stdout.write(f"{document(json.loads(text))}\n" if options.json else text)
    return OK


def reassemble(options: Namespace, _environ: Mapping[str, str]) -> int:
    """Print what the response body on stdin amounts to; 0 where it is complete and nothing of it is lost."""
    record = reassembled(
        sys.stdin.buffer.read(),
        options.dialect,
        content_type=options.content_type,
        content_encoding=options.content_encoding,
        status=options.status,
    )
    members: dict[str, Any] = {name: getattr(record, name) for name in NAMED}
    flags = [{"name": name, **FLAGS[name]._asdict()} for name in record.flags]
    if options.json:
        sys.stdout.write(f"{document({**members, 'flags': flags, 'response': record.response})}\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in _said(record))
    return OK if record.complete and not is_lossy(record.flags, "response") else MISSING


def _said(record: StoredRecord) -> Iterator[str]:
    """Yield the answer as lines: the response first, then how it ended, then each oddity with its sentence."""
    yield json.dumps(json.loads(document(record.response)), indent=2)
    yield f"complete: {'yes' if record.complete else 'no'}"
    yield f"finish: {known(record.finish)} ({known(record.finish_reason)})"
    for name in ("usage", "error"):
        said = msgspec.to_builtins(getattr(record, name)) or {}
        yield from lines({name: {key: value for key, value in said.items() if value is not None} or None})
    for name in record.flags:
        yield f"{FLAGS[name].kind}: {name}: {FLAGS[name].meaning}"
