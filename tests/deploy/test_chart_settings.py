"""Settings in the values of the chart reach the daemon, and nothing overrides them."""

import os
import re
import shlex
import subprocess
import tomllib

import pytest
from chart import DEFAULTS, IMAGE, INSECURE, ROOT, VALUES, container, render, settings


@pytest.fixture(params=VALUES, name="manifests")
def rendered(request):
    return render(VALUES[request.param])


def leaves(settings, prefix=""):
    for name, value in settings.items():
        yield from leaves(value, f"{prefix}{name}.") if isinstance(value, dict) else [f"{prefix}{name}"]


def test_the_settings_of_the_image_and_of_the_chart_exist(manifests):
    known = set(leaves(DEFAULTS))
    found = set(leaves(IMAGE)) | set(leaves(settings(manifests)))
    assert len(found) >= 5 and found <= known


def test_the_image_sets_nothing_that_would_override_the_settings_of_the_chart():
    instructions = re.sub(r"^#.*$", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    variables = [line for line in instructions.splitlines() if line.startswith("ENV")]
    assert variables and not any("ACCELERD" in line for line in variables)
    # The chart's file replaces the image's.
    assert instructions.count("COPY deploy/image.toml /etc/accelerd/config.toml") == 2
    (argument,) = [text for text in container(render(INSECURE))["args"] if text.endswith(".toml")]
    assert argument == "/etc/accelerd/config.toml"


# Settings whose other values cannot be made of the default's form.
OTHERS = {
    "server.uds_path": "/tmp/accelerd.sock",
    "server.frame_bytes": "128KiB",
    "http.listen": "0.0.0.0:7446",
    "http.token_arrays": "model",
    "tls.certificate": "/run/secrets/tls.crt",
    "tls.private_key": "/run/secrets/tls.key",
    "tls.client_ca": "/run/secrets/ca.crt",
    "tls.client_certificates": "optional",
    "auth.principals": "/run/secrets/principals.toml",
    "auth.anonymous": "read",
    "backend.kind": "cpu",
    "backend.ordinals": [1, 3],
    "cuda.restart": "never",
    "lanes.translate.cpu_max_bytes": "1GiB",
    "models.preload": [{"name": "a", "path": "/models/a", "aliases": ["default"], "precision": "auto"}],
    "models.hub.endpoint": "https://hub.example.com/",
    "models.hub.allow": "off",
    "models.hub.owners": ["BAAI"],
    "store.fsync": "never",
    "store.snapshot_url": "s3://bucket/folder",
    "store.snapshot_folders": ["file:///tmp/snapshots"],
    "telemetry.log_level": "warn,accelerd::request=debug",
    "telemetry.log_format": "human",
    "telemetry.otlp_endpoint": "http://collector:4317",
}
# Sizes that follow from the memory of the machine where they are "auto".
SIZES = {
    "memory.host_limit": "8GiB",
    "memory.reserve": "300MiB",
    "sandbox.processes": 3,
    "sandbox.memory": "128MiB",
    "sandbox.case_memory": "32MiB",
    "sandbox.gpu": "off",
    "admission.max_message_memory": "1GiB",
    "server.reflection": False,
}


def other(name, default):
    """A valid value that is not the default."""
    if name in OTHERS | SIZES:
        return (OTHERS | SIZES)[name]
    match default:
        case bool():
            return not default
        case int():
            return default + 1
        case float():
            return default / 2
        case list():
            return ["/tmp/a", "/tmp/b"]
        case "":
            return "/tmp/folder"
        case "auto":
            return "100MiB"
    number, unit = re.fullmatch(r"([0-9]+)(.*[^0-9])(?<!:)", default).groups() if ":" not in default else (None, None)
    return f"{int(number) + 1}{unit}" if number else default.replace("127.0.0.1:7", "0.0.0.0:8")


def by_path(settings, path):
    for name in path.split("."):
        settings = settings[name]
    return settings


def nested(values):
    result = {}
    for path, value in values.items():
        *sections, name = path.split(".")
        section = result
        for one in sections:
            section = section.setdefault(one, {})
        section[name] = value
    return result


LANES = [name for name in DEFAULTS["lanes"] if name != "default"]


def every_setting():
    """A value for each setting, and for each of a lane."""
    given = {name: other(name, by_path(DEFAULTS, name)) for name in leaves(DEFAULTS)}
    for name, default in DEFAULTS["lanes"]["default"].items():
        given |= {f"lanes.{lane}.{name}": given.get(f"lanes.{lane}.{name}", other(f"lanes.{lane}.{name}", default)) for lane in LANES}
    return given


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What the daemon makes of the rendered file, by the settings that are given. ACCELERD_BIN may be a command that runs it in an image."""
    if "ACCELERD_BIN" not in os.environ:
        pytest.skip("ACCELERD_BIN names no daemon")
    daemon = shlex.split(os.environ["ACCELERD_BIN"])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ACCELERD_")}

    def show(values):
        file = tmp_path_factory.mktemp("config") / "config.toml"
        file.write_text(render(values)["ConfigMap"]["data"]["config.toml"])
        command = [*daemon, "config", "show", "--config", file]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        return tomllib.loads(done.stdout)

    return show


def written(value):
    """A value as the daemon writes it: the largest units of a duration first, and exact sizes."""
    if isinstance(value, str) and (found := re.fullmatch(r"([0-9]+)(s|m|ms|h|days?)", value)):
        units = {"day": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
        rest = int(found[1]) * units[found[2].removesuffix("days") or "day"]
        parts = []
        for unit, length in units.items():
            count, rest = divmod(rest, length)
            parts += [f"{count}{unit}{'s' * (unit == 'day' and count > 1)}"] if count else []
        return " ".join(parts) or "0s"
    return value


def test_every_setting_arrives_in_the_daemon_as_it_is_in_the_values(shown):
    given = every_setting()
    assert len(given) > 200 and [name for name, value in given.items() if value == by_path_or_none(DEFAULTS, name)] == []
    values = {"config": nested(given), "gpu": {"count": 0}}
    manifests = render(values)
    assert {name: by_path(settings(manifests), name) for name in leaves(settings(manifests))} == given
    daemon = shown(values)
    assert {name: by_path(daemon, name) for name in given} == {name: written(value) for name, value in given.items()}


def by_path_or_none(settings, path):
    try:
        return by_path(settings, path)
    except KeyError:
        return None


@pytest.mark.parametrize("values", [name for name in VALUES if name != "protected"])
def test_the_daemon_accepts_the_settings_of_each_profile(values, shown):
    daemon = shown(VALUES[values])
    file = settings(render(VALUES[values]))
    assert {name: by_path(daemon, name) for name in leaves(file)} == {name: written(by_path(file, name)) for name in leaves(file)}


@pytest.mark.parametrize("count", [1_000_000, 10**12 - 1])
def test_large_numbers_stay_whole(count, shown):
    values = INSECURE | {"config": {"admission": {"max_items": count}}}
    assert settings(render(values))["admission"]["max_items"] == count
    assert shown(values)["admission"]["max_items"] == count
