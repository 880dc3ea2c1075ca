"""`accelerd.serve`: a daemon that lives as long as its caller."""

from __future__ import annotations

import os
import pickle
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import START_TIMEOUT, _program

import accelerd
from accelerd import Client, NotFoundError
from accelerd._serve import _nvidia_folders, _text

SOURCES = Path(__file__).resolve().parents[1] / "src"
ENCODERS = Path(__file__).resolve().parents[3] / "kernels" / "models" / "tests" / "encoders"


@pytest.fixture(autouse=True)
def _built_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = _program()
    if program is None:
        pytest.skip("no daemon: set ACCELERD_BIN, or cargo build -p accelerd")
    monkeypatch.setenv("ACCELERD_BIN", str(program))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def ended(pid: int) -> bool:
    """Waits until a process has ended; False if it does not in time."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with os.fdopen(process):
        return bool(select.select([process], [], [], START_TIMEOUT)[0])


def test_a_daemon_serves_until_it_is_closed(tmp_path: Path) -> None:
    with accelerd.serve(backend="cpu", data_dir=tmp_path / "data", settings={"server.max_streams": 77}) as client:
        client.create_collection("functions", dimensions=256)
        assert client.embed(["def parse(text): ..."]).shape == (1, 256)
        assert pickle.loads(pickle.dumps(client)).embed(["a"]).shape == (1, 256)
        assert "serving" in client.log
        folder = Path(client.target.removeprefix("unix://")).parent
        assert folder.stat().st_mode & 0o077 == 0, "the socket admits whoever opens it"
    assert ended(client.pid)
    assert not folder.exists()
    with accelerd.serve(backend="cpu", data_dir=tmp_path / "data") as again:
        assert [one.name for one in again.collections()] == ["functions"]


def test_settings_of_the_machine_and_tokens_of_the_environment_do_not_apply(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text('[backend]\nkind = "no kind"\n')
    monkeypatch.setenv("ACCELERD_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("ACCELERD_TOKEN", "a token of another daemon")
    with accelerd.serve(backend="cpu") as client:
        assert client.devices()


def test_models_are_loaded_at_the_start() -> None:
    folder = next(path for path in sorted(ENCODERS.iterdir()) if (path / "config.json").exists())
    with accelerd.serve(backend="cpu", models=[f"tiny={folder}"]) as client:
        assert len(client.embed(["a"], model="tiny")) == 1
        with pytest.raises(NotFoundError):
            client.embed(["a"], model="other")


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "sys.exit(3)", "raise SystemError"])
def test_a_daemon_ends_with_its_python(end: str) -> None:
    code = "import os, signal, sys, accelerd; client = accelerd.serve(backend='cpu')"
    code += f"\nprint(client.pid, flush=True)\n{end}"
    environment = os.environ | {"PYTHONPATH": str(SOURCES)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout, done.stderr
    assert ended(int(done.stdout))


def test_a_fork_and_an_interrupt_leave_the_daemon_alone() -> None:
    with accelerd.serve(backend="cpu") as client:
        child = os.fork()
        if child == 0:
            client._stop()
            os._exit(0)
        os.waitpid(child, 0)
        assert os.getpgid(client.pid) != os.getpgid(0), "Ctrl-C interrupts a group of processes"
        os.kill(client.pid, signal.SIGHUP)
        assert client.devices()


def test_a_daemon_that_ends_at_once_is_an_error_with_its_log() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)status 2:.*server\.max_streams"):
        accelerd.serve(settings={"server.max_streams": 0})


def test_invalid_options_of_the_client_start_nothing() -> None:
    with pytest.raises(ValueError, match="timeout"):
        accelerd.serve(timeout=-1)


def test_a_missing_program_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ACCELERD_BIN")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"pip install 'accelerd\[server\]'"):
        accelerd.serve()


def test_settings_are_written_as_the_daemon_reads_them(tmp_path: Path) -> None:
    assert _text(True) == "true"
    assert _text([tmp_path, 1.5, "a"]) == f"{tmp_path},1.5,a"


def test_libraries_of_nvidia_packages_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    libraries = tmp_path / "nvidia" / "cu13" / "lib"
    libraries.mkdir(parents=True)
    (libraries / "libnvrtc.so.13").touch()
    (libraries / "libcublasLt.so.13").touch()
    (tmp_path / "nvidia" / "nvshmem" / "lib").mkdir(parents=True)
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert _nvidia_folders() == [libraries]
    assert issubclass(accelerd.LocalDaemon, Client)
