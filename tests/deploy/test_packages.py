"""The packages of a release: what is in them, and what their service says to systemd."""

import configparser
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "deploy" / "packages"
DEFAULTS = tomllib.loads((ROOT / "server/config/default.toml").read_text())


@pytest.fixture(scope="module", name="release")
def release_module():
    """The script that makes the packages."""
    spec = importlib.util.spec_from_file_location("release", PACKAGES / "release.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["release"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["release"]


@pytest.fixture(scope="module", name="prefix")
def staged(tmp_path_factory):
    """An installation whose programs print their names."""
    prefix = tmp_path_factory.mktemp("prefix")
    (prefix / "bin").mkdir()
    for program in ("accelerd", "accelctl"):
        (prefix / "bin" / program).write_text(f"#!/bin/sh\necho {program}\n")
        (prefix / "bin" / program).chmod(0o755)
    kernels = prefix / "share" / "accelerd" / "kernels"
    kernels.mkdir(parents=True)
    (kernels / "add.kernels").write_text("machine code")
    return prefix


def test_the_versions_of_a_release_belong_together(release):
    version = release.version()
    client = tomllib.loads((ROOT / "client/python/pyproject.toml").read_text())["project"]
    assert client["version"] == version
    assert client["optional-dependencies"]["server"] == [f"accelerd-server=={version}"]
    chart = (ROOT / "helm/accelerd/Chart.yaml").read_text()
    assert re.search(rf'^appVersion: "?{re.escape(version)}"?$', chart, re.MULTILINE)


def test_an_installed_wheel_has_the_programs_and_the_kernels(release, prefix, tmp_path):
    release.server_wheel(prefix, release.PLATFORMS["x86_64"], tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"accelerd_server-{release.version()}-py3-none-manylinux_2_28_x86_64.whl"
    environment = tmp_path / "environment"
    subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, environment], check=True)
    install = ["uv", "pip", "install", "--quiet", "--offline", "--no-deps", "--python", environment / "bin/python", wheel]
    subprocess.run(install, check=True)
    for program in ("accelerd", "accelctl"):
        run = subprocess.run([environment / "bin" / program], capture_output=True, text=True, check=True)
        assert run.stdout == f"{program}\n"
    assert (environment / "share/accelerd/kernels/add.kernels").read_text() == "machine code"


def test_the_wheel_names_the_libraries_of_nvidia_only_where_they_are_asked_for(release, prefix, tmp_path):
    release.server_wheel(prefix, release.PLATFORMS["aarch64"], tmp_path)
    (wheel,) = tmp_path.glob("*_aarch64.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        lines = archive.read(name).decode().splitlines()
    required = [line for line in lines if line.startswith("Requires-Dist: ")]
    assert required and all(line.endswith("extra == 'cuda'") for line in required)


def test_the_tarball_belongs_to_root_and_has_the_unit(release, prefix, tmp_path):
    release.pack(prefix, tmp_path)
    (tarball,) = tmp_path.glob("*.tar.gz")
    listed = subprocess.run(["tar", "-tvzf", tarball], capture_output=True, text=True, check=True).stdout.splitlines()
    assert all(" root/root " in line for line in listed)
    names = {line.split(f"{prefix.name}/", 1)[-1] for line in listed}
    assert {"bin/accelerd", "bin/accelctl", "lib/systemd/system/accelerd.service"} <= names


@pytest.mark.parametrize("package", ["server", "client/cli"])
def test_binstall_finds_the_programs_in_the_tarball(release, prefix, tmp_path, package):
    manifest = tomllib.loads((ROOT / package / "Cargo.toml").read_text())
    binstall = manifest["package"]["metadata"]["binstall"]
    version = release.version()
    target = "x86_64-unknown-linux-gnu"
    names = {"repo": "R", "version": version, "target": target, "bin": manifest["package"]["name"]}
    filled = {key: re.sub(r"\{ (\w+) \}", lambda name: names[name[1]], value) for key, value in binstall.items()}
    staged = tmp_path / f"accelerd-{version}-{target}"
    shutil.copytree(prefix, staged)
    release.pack(staged, tmp_path)
    name = filled["pkg-url"].rpartition("/")[2]
    listed = subprocess.run(["tar", "-tzf", tmp_path / name], capture_output=True, text=True, check=True).stdout
    assert filled["bin-dir"] in listed.splitlines()


def test_another_architecture_gets_the_kernels_and_manuals_of_this_machines_tarball(release, prefix, tmp_path):
    staged = tmp_path / release.installation(release.PLATFORMS["x86_64"])
    shutil.copytree(prefix, staged)
    (staged / "share" / "man" / "man1").mkdir(parents=True)
    (staged / "share" / "man" / "man1" / "accelerd.1").write_text(".TH accelerd")
    release.pack(staged, tmp_path)
    target = tmp_path / "target"
    release.add_from(release.tarball(release.PLATFORMS["x86_64"], tmp_path), target)
    found = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert found == {"share/man/man1/accelerd.1", "share/accelerd/kernels/add.kernels"}
    assert (target / "share/accelerd/kernels/add.kernels").read_text() == "machine code"


def test_another_architecture_comes_after_this_machines(release, tmp_path):
    (other,) = {"x86_64", "aarch64"} - {platform.machine()}
    command = [sys.executable, PACKAGES / "release.py", "--target", other, "--output", tmp_path / "dist"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"{release.tarball(release.NATIVE, tmp_path / 'dist')} is missing" in done.stderr


def test_checksums_are_those_that_sha256sum_reads(release, tmp_path):
    (tmp_path / "a.whl").write_text("a")
    (tmp_path / "b.deb").write_text("b")
    # A second run, for another architecture, writes them again.
    release.checksums(tmp_path)
    release.checksums(tmp_path)
    lines = [line.split("  ") for line in (tmp_path / "SHA256SUMS").read_text().splitlines()]
    assert lines == [[hashlib.sha256(text).hexdigest(), name] for text, name in ((b"a", "a.whl"), (b"b", "b.deb"))]


#: Groups of system calls in the systemd of Debian 12, which ignores others, and with them the calls that the daemon needs.
CALL_GROUPS = {"@system-service", "@privileged", "@resources"}


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(s|min)", text).groups()
    return int(number) * {"s": 1, "min": 60}[unit]


def unit_lines(name):
    """The values of a directive of the service, which may stand on several lines."""
    lines = (PACKAGES / "accelerd.service").read_text().splitlines()
    return [line.partition("=")[2] for line in lines if line.startswith(f"{name}=")]


def test_the_systemd_of_debian_12_knows_how_the_service_starts_and_what_it_may_call():
    assert unit_lines("Type") == ["notify"]
    assert unit_lines("ExecReload") == ["/bin/kill -HUP $MAINPID"]
    calls = {call for line in unit_lines("SystemCallFilter") for call in line.removeprefix("~").split()}
    assert {call for call in calls if call.startswith("@")} == CALL_GROUPS
    # Those that confine the processes that run code of clients.
    assert {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp"} <= calls


def test_the_service_stops_after_a_drain_and_writes_only_where_its_settings_say():
    unit = configparser.ConfigParser(strict=False)
    unit.optionxform = str
    unit.read(PACKAGES / "accelerd.service")
    service = unit["Service"]
    drain = DEFAULTS["drain"]
    assert seconds(service["TimeoutStopSec"]) > seconds(drain["endpoint_delay"]) + seconds(drain["timeout"])
    settings = tomllib.loads((PACKAGES / "debian" / "config.toml").read_text())
    assert settings["store"]["data_dir"] == f"/var/lib/{service['StateDirectory']}"
    assert settings["cuda"]["kernel_cache"].startswith(f"/var/cache/{service['CacheDirectory']}/")
    assert service["ProtectSystem"] == "strict"


def test_the_settings_of_the_service_are_valid(tmp_path):
    program = os.environ["ACCELERD_BIN"]
    command = [program, "config", "check", "--config", PACKAGES / "debian" / "config.toml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_documentation_names_the_packages_and_architectures(release):
    text = (ROOT / "docs" / "install.md").read_text()
    capabilities = [f"{arch[3:-1]}.{arch[-1]}" for arch in release.ARCHITECTURES]
    assert f"{', '.join(capabilities[:-1])} and {capabilities[-1]}" in text
    assert f"accelerd_{release.debian_version()}_amd64.deb" in text
    assert f"accelerd-{release.version()}-x86_64-unknown-linux-gnu.tar.gz" in text
