"""Settings: from every source, checked as a whole, and explained."""

import dataclasses
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.config import DIALECTS, KNOBS, CaptureConfig
from capture.errors import CaptureConfigError, CaptureError
from pipeline.settings import PipelineSettings

DOCUMENT = Path(__file__).parents[2] / "docs" / "configuration.md"


def problems_of(environ: dict[str, str], **settings: object) -> tuple[str, ...]:
    """Give what is refused about these settings."""
    with pytest.raises(CaptureConfigError) as refused:
        CaptureConfig.load(environ, **settings)
    assert str(refused.value).count("\n") in {0, len(refused.value.problems)}
    return refused.value.problems


def test_nothing_set_is_capture_turned_off() -> None:
    """The defaults are valid and record nothing."""
    config = CaptureConfig()
    assert not config.enabled
    assert config == CaptureConfig.from_environ({})
    assert dict(config.routes) == DIALECTS


def test_defaults_agree_with_those_of_the_pipeline() -> None:
    """The pipeline's own defaults and the settings' defaults are the same values."""
    ours = CaptureConfig(directory="/records").pipeline_settings()
    assert ours == PipelineSettings(directory="/records")


def test_every_setting_reaches_the_pipeline() -> None:
    """Each of the pipeline's settings that is set here arrives there, under the same name."""
    given = {
        "directory": "/records",
        "state_directory": "/state",
        "server_name": "policy",
        "labels": {"run": "7"},
        "queue_max_events": 7,
        "queue_max_bytes": 11,
        "open_max_bytes": 13,
        "body_max_bytes": 12,
        "batch_max_records": 3,
        "batch_max_bytes": 5,
        "flush_interval_ms": 17,
        "workers": 2,
        "worker_kind": "thread",
        "worker_nice": 0,
        "fsync": "never",
        "lock_timeout_ms": 19,
        "file_mode": 0o640,
        "directory_mode": 0o750,
        "shutdown_timeout_ms": 23,
    }
    assert given.keys() == set(PipelineSettings.__struct_fields__)
    assert CaptureConfig.load({}, **given).pipeline_settings() == PipelineSettings(**given)  # type: ignore[arg-type]


def test_environment_forms_are_read() -> None:
    """Switches, sizes, modes, lists and pairs have a text form."""
    config = CaptureConfig.from_environ(
        {
            "CAPTURE_ENABLED": "Yes",
            "CAPTURE_DIRECTORY": "/records",
            "CAPTURE_LABELS": "run=7, team=red=blue",
            "CAPTURE_ROUTES": "/v1/chat/completions=chat,/claude/v1/messages=messages",
            "CAPTURE_ROLLOUT_HEADERS": "X-Run, x-run,x-rollout-id",
            "CAPTURE_QUEUE_MAX_BYTES": "64 kib",
            "CAPTURE_BATCH_MAX_BYTES": "8KB",
            "CAPTURE_BODY_MAX_BYTES": "1000",
            "CAPTURE_FILE_MODE": "0640",
            "CAPTURE_WORKERS": " 2 ",
            "CAPTURE_APP": "server:app",
            "CAPTURE_SERVER_NAME": "",
            "PATH": "/bin",
        }
    )
    assert config.enabled
    assert config.labels == {"run": "7", "team": "red=blue"}
    assert config.routes == {"/v1/chat/completions": "chat", "/claude/v1/messages": "messages"}
    assert config.rollout_headers == ("x-run", "x-rollout-id")
    assert (config.queue_max_bytes, config.batch_max_bytes, config.body_max_bytes) == (65536, 8000, 1000)
    assert config.file_mode == 0o640
    assert config.workers == 2
    assert config.server_name is None


@pytest.mark.parametrize("head", ["[capture]\n", ""])
def test_a_toml_file_is_read_from_its_table_or_its_top_level(tmp_path: Path, head: str) -> None:
    """A file of our own needs no table, a shared one has one; sizes and modes are numbers or texts."""
    path = tmp_path / "capture.toml"
    path.write_text(
        f'{head}workers = 3\nqueue_max_bytes = "9MiB"\nfile_mode = 0o660\nlabels = {{ run = "7" }}\n'
    )
    config = CaptureConfig.from_toml(path)
    assert (config.workers, config.queue_max_bytes, config.file_mode) == (3, 9 << 20, 0o660)
    assert config.labels == {"run": "7"}


def test_arguments_win_over_environment_over_file_over_default(tmp_path: Path) -> None:
    """Each setting comes from the nearest source that has it, and says which one that was."""
    path = tmp_path / "capture.toml"
    path.write_text("[capture]\nworkers = 2\nworker_nice = 3\nflush_interval_ms = 5\n[other]\nx = 1\n")
    environ = {"CAPTURE_CONFIG": str(path), "CAPTURE_WORKERS": "4", "CAPTURE_WORKER_NICE": "5"}
    config = CaptureConfig.load(environ, workers=6)
    assert (config.workers, config.worker_nice, config.flush_interval_ms) == (6, 5, 5)
    source = {setting.name: setting.source for setting in config.explain()}
    assert source["workers"] == "argument"
    assert source["worker_nice"] == "environment CAPTURE_WORKER_NICE"
    assert source["flush_interval_ms"] == f"file {path}"
    assert source["fsync"] == "default"
    assert CaptureConfig.from_toml(path, environ).workers == 4


def test_explaining_names_variable_value_and_reason_of_every_setting() -> None:
    """`explain` lists all settings, and its texts set the same values again."""
    config = CaptureConfig(enabled=True, directory="/records", labels={"run": "7"}, open_max_bytes=1 << 40)
    settings = config.explain()
    assert [setting.name for setting in settings] == list(KNOBS)
    again = CaptureConfig.from_environ({setting.environment: setting.text for setting in settings})
    assert again == config
    assert all(setting.reason.endswith(".") for setting in settings)


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    """One refusal names each wrong setting as it was written, its value and what is allowed."""
    path = tmp_path / "capture.toml"
    path.write_text("worker_nice = 20\nfsnyc = true\n")
    environ = {"CAPTURE_CONFIG": str(path), "CAPTURE_FSYNC": "sometimes", "CAPTURE_WORKER": "2"}
    assert problems_of(environ, workers=0, flush_intervall_ms=3) == (
        "workers is 0; allowed: a whole number from 1 to 64",
        "flush_intervall_ms is no setting; did you mean flush_interval_ms?",
        "CAPTURE_FSYNC is 'sometimes'; allowed: batch or never",
        "CAPTURE_WORKER is no setting; did you mean CAPTURE_WORKERS?",
        f"worker_nice in {path} is 20; allowed: a whole number from 0 to 19",
        f"fsnyc in {path} is no setting; did you mean fsync in {path}?",
    )


def test_the_constructor_refuses_in_the_same_way() -> None:
    """Unknown and wrong keyword arguments are both named."""
    with pytest.raises(CaptureConfigError) as refused:
        CaptureConfig(enable=True, workers="many")  # type: ignore[call-arg,arg-type]
    assert len(refused.value.problems) == 2
    assert "did you mean enabled?" in str(refused.value)
    assert isinstance(refused.value, ValueError)
    assert isinstance(refused.value, CaptureError)


def test_a_name_that_is_like_no_setting_points_to_the_list() -> None:
    """Where nothing is near, the refusal says where all names are."""
    assert problems_of({"CAPTURE_ZZZ": "1"}) == (
        "CAPTURE_ZZZ is no setting; docs/configuration.md lists them",
    )


def test_settings_that_contradict_each_other_are_refused() -> None:
    """A route is not under the prefix, and recording has a place; a bound smaller than another one is allowed."""
    found = problems_of(
        {},
        enabled=True,
        body_max_bytes="2GiB",
        queue_max_bytes="1MiB",
        queue_max_events=511,
        routes={"/ng-rollout/v1/messages": "messages"},
    )
    assert found == (
        "routes names /ng-rollout/v1/messages, which rollout_prefix (/ng-rollout) takes off; leave it out",
        "directory is not set; recording needs one, absolute or from the working directory",
    )
    assert problems_of({}, enabled=True, directory="/records", routes={}) == (
        "routes is empty; recording needs a path at least",
    )
    with pytest.raises(CaptureConfigError, match="directory is not set"):
        CaptureConfig().pipeline_settings()


@pytest.mark.parametrize("content", [None, b"workers = ", b"capture = 3", b"\xff"])
def test_a_settings_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    """A missing, broken or odd file is refused with its path."""
    path = tmp_path / "capture.toml"
    if content is not None:
        path.write_bytes(content)
    (problem,) = problems_of({"CAPTURE_CONFIG": str(path)})
    assert str(path) in problem


def test_directories_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative directory means the one below the working directory of the start, whatever happens later."""
    monkeypatch.chdir(tmp_path)
    config = CaptureConfig(directory=Path("records"), state_directory="a/../b")
    monkeypatch.chdir("/")
    assert config.directory == str(tmp_path / "records")
    assert config.pipeline_settings().state_directory == str(tmp_path / "b")


def test_a_configuration_cannot_be_changed() -> None:
    """Neither a setting nor the content of one can be replaced; equal settings are equal and hash alike."""
    config = CaptureConfig(labels={"run": "7"})
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.workers = 2  # type: ignore[misc]
    with pytest.raises(TypeError):
        config.labels["run"] = "8"  # type: ignore[index]
    assert len({config, CaptureConfig(labels={"run": "7"}), CaptureConfig(workers=2)}) == 2


def test_a_refusal_survives_the_way_between_processes() -> None:
    """A refusal in a server process can be raised again in its parent, in the same words."""
    error = CaptureConfigError(["a is wrong", "b is wrong"])
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - made one line above
    assert (str(again), again.problems) == (str(error), error.problems)


def test_importing_reads_no_environment_and_no_web_framework() -> None:
    """A wrong environment hurts only who asks for it, and the middleware's settings do not load starlette."""
    code = "import capture.config, capture.routes, capture.secrets, sys; sys.exit('starlette' in sys.modules)"
    environ = {"CAPTURE_NONSENSE": "1", "PATH": ""}
    folder = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], env=environ, cwd=folder, check=False)
    assert done.returncode == 0


@given(st.dictionaries(st.sampled_from([knob.environment for knob in KNOBS.values()]), st.text(max_size=30)))
def test_any_environment_is_read_or_refused(environ: dict[str, str]) -> None:
    """No text in a variable makes anything but a configuration or a refusal."""
    try:
        config = CaptureConfig.from_environ(environ)
    except CaptureConfigError:
        return
    again = CaptureConfig.from_environ({setting.environment: setting.text for setting in config.explain()})
    assert again == config


def test_the_documentation_has_every_setting() -> None:
    """docs/configuration.md lists each setting with its variable, default, allowed values and reason."""
    rows = DOCUMENT.read_text(encoding="utf-8").splitlines()
    for knob in KNOBS.values():
        shown = "" if knob.default is None else knob.form.show(knob.default)
        default = f"`{shown}`" if shown else "none"
        row = f"| `{knob.name}` | `{knob.environment}` | {default} | {knob.form.allowed} | {knob.reason} |"
        assert row in rows
