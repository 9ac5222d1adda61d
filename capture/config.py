"""`CaptureConfig`: every setting of the server side, immutable, checked once when it is made.

Settings come from keyword arguments, environment variables (`CAPTURE_` and the name in capitals), a TOML file,
or the defaults, in this order of precedence. Wrong or unknown ones are refused, all of them at once, each with
its name as it was written, the value and what is allowed. The environment is read only by the calls that are
handed one; importing reads nothing. `explain()` says where each value came from.
"""

import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Self

from capture import knobs, sources
from capture.errors import CaptureConfigError
from capture.knobs import Knob, knob
from capture.sources import Given
from pipeline.settings import PipelineSettings

DIALECTS: Final = {
    "/v1/chat/completions": "chat",
    "/v1/responses": "responses",
    "/v1/messages": "messages",
}
"""Path to dialect: OpenAI's chat completions and responses, Anthropic's messages."""

_NEVER_CORRELATE: Final = (
    "authorization",
    "api-key",
    "cookie",
    "proxy-authorization",
    "x-api-key",
    "x-goog-api-key",
)
_MOST: Final = 1 << 40
_HOUR_MS: Final = 3_600_000


class Setting(NamedTuple):
    """One effective setting: `source` is `default`, `argument`, `environment CAPTURE_X` or `file PATH`.

    `text` is the value as an environment variable would give it, `environment` the variable's name.
    """

    name: str
    value: Any
    text: str
    source: str
    reason: str
    environment: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class CaptureConfig:
    """The settings of one capture, each with its unit in its name.

    Raises `CaptureConfigError` when made of wrong, contradicting or unknown settings. `directory` and
    `state_directory` are absolute texts afterwards, `labels` and `routes` read-only mappings.
    """

    enabled: bool = knob(
        default=False,
        form=knobs.boolean(),
        reason="Installing the library must not start to record; whoever wants records says so.",
    )
    directory: str | os.PathLike[str] | None = knob(  # noqa: RUF009 - it makes a field
        default=None,
        form=knobs.folder(),
        reason="Where the record files go; there is no place that is right for everyone.",
    )
    state_directory: str | os.PathLike[str] | None = knob(  # noqa: RUF009 - it makes a field
        default=None,
        form=knobs.folder(),
        reason="Where the ledgers live: `.pipeline` in the directory unless that is no local file system.",
    )
    server_name: str | None = knob(
        default=None,
        form=knobs.pattern("1 to 200 printable characters", r"[^\x00-\x1f\x7f]{1,200}"),
        reason="Tells servers apart that write into one directory; stored in every record.",
    )
    labels: Mapping[str, str] = knob(
        default={},
        form=knobs.mapping(
            "pairs like run=7,team=red", r"[^\s=,][^=,\x00-\x1f]{0,99}", r"[^\x00-\x1f]{0,1000}"
        ),
        reason="Constant notes on every record, such as the run or the checkpoint.",
    )
    routes: Mapping[str, str] = knob(
        default=DIALECTS,
        form=knobs.mapping(
            "pairs of a path and chat, responses or messages, like /v1/messages=messages; "
            "a path begins with / and has no trailing slash or query",
            r"(/[^/\s?#=,]+)+",
            r"chat|responses|messages",
        ),
        reason="Calls to exactly these paths are recorded; counting tokens or listing models is no model call.",
    )
    rollout_prefix: str = knob(
        default="/ng-rollout",
        form=knobs.pattern("a path like /ng-rollout, without trailing slash", r"(/[!$&-.0-;=@-Z_a-z~+]+)+"),
        reason="The path in front of /<rollout id>/v1/... that NeMo Gym's agents use.",
    )
    rollout_headers: tuple[str, ...] = knob(
        default=("x-rollout-id", "x-nemo-gym-rollout-id"),
        form=knobs.names(
            "header names like x-rollout-id,x-run-id that carry no credential",
            r"[!#$%&'*+.^_`|~0-9a-z-]{1,100}",
            _NEVER_CORRELATE,
        ),
        reason="Headers that name the rollout; the first that is present wins over every other rule.",
    )
    uncorrelated: str = knob(
        default="capture",
        form=knobs.choice("capture", "skip"),
        reason="A call that names no rollout is kept, in a file of its own, rather than lost unseen.",
    )
    queue_max_events: int = knob(
        default=2048,
        form=knobs.integer(1, 1_000_000),
        reason="Some seconds of a busy server; what waits in memory is lost in a crash.",
    )
    queue_max_bytes: int = knob(
        default=64 << 20,
        form=knobs.size(1, _MOST),
        reason="Bounds the memory of what waits for or is with a worker, whatever the size of a call.",
    )
    open_max_bytes: int = knob(
        default=1 << 30,
        form=knobs.size(1, _MOST),
        reason="Bounds the memory of calls in flight; beyond it bodies are cut, and calls still served.",
    )
    body_max_bytes: int = knob(
        default=64 << 20,
        form=knobs.size(1, _MOST),
        reason="More than any agent's request with images; of a longer body the size and digest are kept.",
    )
    batch_max_records: int = knob(
        default=512,
        form=knobs.integer(1, 100_000),
        reason="Enough that one sync serves many calls, few enough that a resend is short.",
    )
    batch_max_bytes: int = knob(
        default=8 << 20,
        form=knobs.size(1, _MOST),
        reason="Keeps one batch through pipe and worker within a fraction of a second.",
    )
    flush_interval_ms: int = knob(
        default=100,
        form=knobs.integer(1, 60_000),
        reason="The longest a call waits for company: one sync each 100 ms is nothing, a file is fresh.",
    )
    workers: int = knob(
        default=1,
        form=knobs.integer(1, 64),
        reason="Each is a process with its own memory; more pay only where one cannot keep up.",
    )
    worker_kind: str = knob(
        default="process",
        form=knobs.choice("process", "thread"),
        reason="A thread would hold the interpreter's lock for milliseconds and delay the event loop.",
    )
    worker_nice: int = knob(
        default=10,
        form=knobs.integer(0, 19),
        reason="Workers yield the processor to the server and still get a tenth of a busy core.",
    )
    fsync: str = knob(
        default="batch",
        form=knobs.choice("batch", "never"),
        reason="A record that counts as committed survives a power cut; `never` trusts the system's cache.",
    )
    lock_timeout_ms: int = knob(
        default=5000,
        form=knobs.integer(1, _HOUR_MS),
        reason="How long a file whose lock another holds is tried before it is reported as failing.",
    )
    file_mode: int = knob(
        default=0o600,
        form=knobs.mode(0o600),
        reason="Record files hold prompts and answers: for their owner only.",
    )
    directory_mode: int = knob(
        default=0o700,
        form=knobs.mode(0o700),
        reason="The same for directories that are made; one that exists keeps its mode.",
    )
    shutdown_timeout_ms: int = knob(
        default=5000,
        form=knobs.integer(0, _HOUR_MS),
        reason="Half of the 10 s that container runtimes give before they kill.",
    )
    _sources: Mapping[str, str] = dataclasses.field(init=False, repr=False, compare=False)

    def __new__(cls, **settings: object) -> Self:
        """Refuse unknown names before the generated constructor would, together with wrong values."""
        if not settings.keys() <= KNOBS.keys():
            sources.merge(KNOBS, [sources.of_arguments(settings)])
        self = super().__new__(cls)
        object.__setattr__(self, "_sources", dict.fromkeys(settings, "argument"))
        return self

    def __post_init__(self) -> None:
        given = {name: Given(getattr(self, name), "argument", name) for name in KNOBS}
        for name, value in sources.merge(KNOBS, [given])[0].items():
            object.__setattr__(self, name, value)
        if problems := tuple(_contradictions(self)):
            raise CaptureConfigError(problems)

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Self:
        """Make it from `CAPTURE_*` variables; `CAPTURE_CONFIG` names a TOML file that they override."""
        return cls.load(environ)

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str], environ: Mapping[str, str] | None = None) -> Self:
        """Make it from a TOML file (its table `capture`, or its top level); `environ` overrides it."""
        return cls._merged([sources.of_environ(environ or {}), sources.of_toml(path)])

    @classmethod
    def load(cls, environ: Mapping[str, str], **settings: Any) -> Self:  # noqa: ANN401 - typed by the fields
        """Make it from everything: arguments over environment over the file of `CAPTURE_CONFIG`."""
        layers = [sources.of_arguments(settings), sources.of_environ(environ)]
        if path := environ.get(sources.CONFIG_VARIABLE):
            layers.append(sources.of_toml(path))
        return cls._merged(layers)

    @classmethod
    def _merged(cls, layers: list[dict[str, Given]]) -> Self:
        values, came_from = sources.merge(KNOBS, layers)
        config = cls(**values)
        object.__setattr__(config, "_sources", came_from)
        return config

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it as its settings: servers that spawn their processes send the application along."""
        values = {name: getattr(self, name) for name in KNOBS}
        plain = {name: dict(value) if isinstance(value, Mapping) else value for name, value in values.items()}
        return _made_again, (plain, dict(self._sources))

    def explain(self) -> list[Setting]:
        """List every setting with its effective value, where it came from and why its default is what it is."""
        return [self._setting(known, getattr(self, known.name)) for known in KNOBS.values()]

    def _setting(self, known: Knob, value: object) -> Setting:
        text = "" if value is None else known.form.show(value)
        source = self._sources.get(known.name, "default")
        return Setting(known.name, value, text, source, known.reason, known.environment)

    def pipeline_settings(self) -> PipelineSettings:
        """Give the part that the pipeline needs; raises `CaptureConfigError` without a directory."""
        if self.directory is None:
            raise CaptureConfigError([_NO_DIRECTORY])
        values = {name: getattr(self, name) for name in PipelineSettings.__struct_fields__}
        return PipelineSettings(**values | {"labels": dict(self.labels)})


def _made_again(values: dict[str, Any], came_from: dict[str, str]) -> CaptureConfig:
    """Undo `__reduce__`."""
    config = CaptureConfig(**values)
    object.__setattr__(config, "_sources", came_from)
    return config


KNOBS: Final[dict[str, Knob]] = knobs.knobs_of(CaptureConfig)
"""Every setting by name, in the order of the documentation."""

_NO_DIRECTORY: Final = "directory is not set; recording needs one, absolute or from the working directory"


def _contradictions(config: CaptureConfig) -> Iterable[str]:
    """Say what cannot be together, one sentence each."""
    for path in config.routes:
        if f"{path}/".startswith(f"{config.rollout_prefix}/"):
            yield f"routes names {path}, which rollout_prefix ({config.rollout_prefix}) takes off; leave it out"
    if config.enabled and config.directory is None:
        yield _NO_DIRECTORY
    if config.enabled and not config.routes:
        yield "routes is empty; recording needs a path at least"
