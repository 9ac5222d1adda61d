"""The names a request may ask for, and the numbers it may ask with: `scripted-tools?rounds=2&tokens=40`.

A script is chosen by the model's name, so that any client can choose one without a setting of its own. `SCRIPTS`
is the whole list; code, tests and the server's `GET /v1/models` read it. A number is taken, in this order, from
the query-like suffix of the name, from the script, from the server's `ScriptedModel`.

A name that ends in `-deaf` is the script before it, served by an application that never asks whether its client
is still there.
"""

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import parse_qsl

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]

ENVIRONMENT_PREFIX = "SCRIPTED_"
DEAF = "-deaf"
ALWAYS = 1_000_000
"""More attempts than any client makes."""


class ScriptedModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The numbers of a scripted model. Each has its unit in its name; counts are of tokens unless named.

    `think_time_ms` passes before the first token, then `tokens_per_s` of them come in a second (0: at once).
    `tokens` is the length of a text, `at` the number of tokens after which a stream's fault strikes, `failures`
    how many attempts of a call fail, `rounds` how often tools are called before the text, `retry_after_ms` what
    a 429 asks for.
    """

    think_time_ms: Amount = 0.0
    tokens_per_s: Amount = 0.0
    tokens: Count = 24
    at: Count = 8
    failures: Count = 1
    rounds: Count = 1
    retry_after_ms: Count = 20

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "ScriptedModel":
        """Read `SCRIPTED_TOKENS` and the like; raises msgspec.ValidationError for what is not such a number."""
        values = {
            name: environ[ENVIRONMENT_PREFIX + name.upper()]
            for name in cls.__struct_fields__
            if ENVIRONMENT_PREFIX + name.upper() in environ
        }
        return msgspec.convert(values, cls, strict=False)


class Script(msgspec.Struct, frozen=True):
    """What one name does.

    `says` are the parts of an answer, in order: `reasoning`, `calls` (two parallel tool calls), `text`,
    `refusal`; `calls` are made in the first `rounds` turns only, and later answered by a text. `refuses` is the
    provider error that the first `failures` attempts get instead of an answer. `breaks` is what happens in the
    middle of an answer: `error`, `cut`, `raise`, `garbage`. `sets` are the script's own numbers.
    """

    about: str
    says: tuple[str, ...] = ("text",)
    refuses: str | None = None
    breaks: str | None = None
    length: bool = False
    sets: dict[str, float] = {}


SCRIPTS: dict[str, Script] = {
    "scripted": Script("a text"),
    "scripted-reasoning": Script("reasoning, then a text", says=("reasoning", "text")),
    "scripted-tools": Script(
        "reasoning and two parallel tool calls, then a text", says=("reasoning", "calls")
    ),
    "scripted-refusal": Script("a refusal", says=("refusal",)),
    "scripted-length": Script("a text that ends at the token limit", length=True),
    "scripted-slow": Script("a text of 200 tokens in 10 s", sets={"tokens": 200, "tokens_per_s": 20}),
    "scripted-429": Script("429 with retry-after at the first attempt", refuses="rate_limit"),
    "scripted-500": Script("500", refuses="server_error", sets={"failures": ALWAYS}),
    "scripted-529": Script("529, overloaded", refuses="overloaded", sets={"failures": ALWAYS}),
    "scripted-context": Script(
        "400, the prompt is too long", refuses="context_length", sets={"failures": ALWAYS}
    ),
    "scripted-error-in-stream": Script("an error inside the stream", breaks="error"),
    "scripted-cut": Script("a stream without its terminal event, half a body unstreamed", breaks="cut"),
    "scripted-not-json": Script("200 with a body that is not JSON", breaks="garbage"),
    "scripted-exception": Script("an exception before the response starts", breaks="raise", sets={"at": 0}),
    "scripted-exception-in-stream": Script("an exception in the middle of the stream", breaks="raise"),
}


class Plan(msgspec.Struct, frozen=True):
    """A model's name, understood: what to do, with which numbers, as whom, and whether to listen."""

    served: str
    script: Script
    model: ScriptedModel
    deaf: bool


class UnknownModelError(LookupError):
    """The name before the `?` is none of `SCRIPTS`."""


class BadParameterError(ValueError):
    """The part after the `?` names no number of `ScriptedModel`, or one out of bounds."""


def resolve(name: str, base: ScriptedModel) -> Plan:
    """Understand a model's name as it came in a request."""
    served, _, suffix = name.partition("?")
    script = SCRIPTS.get(served.removesuffix(DEAF))
    if script is None:
        raise UnknownModelError(served)
    values: dict[str, Any] = msgspec.structs.asdict(base) | script.sets | dict(parse_qsl(suffix))
    try:
        model = msgspec.convert(values, ScriptedModel, strict=False)
    except msgspec.ValidationError as error:
        raise BadParameterError(str(error)) from error
    return Plan(served, script, model, served.endswith(DEAF))
