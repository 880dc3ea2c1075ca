"""A daemon of this process: `accelerd.serve`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sysconfig
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from ._blocking_client import Client
from ._call import DEFAULT_TIMEOUT
from ._errors import DeadlineError, UnavailableError

#: A setting of the daemon: text, a number, a truth value, a path, or a list of them.
Setting = str | int | float | bool | Path | Sequence[Any]

#: Seconds until a daemon must serve: a model may have to be downloaded first, and the kernels of a GPU compiled.
_START_TIMEOUT = 600.0
#: Seconds after which a daemon that does not end is killed.
_STOP_TIMEOUT = 15.0
#: Seconds of a first call, which waits until the daemon has started.
_ATTEMPT_TIMEOUT = 1.0
#: Seconds between looks at a socket that is not there yet.
_POLL_INTERVAL = 0.02
#: Lines of the log in an error.
_LOG_LINES = 20
#: Longest path of a Unix socket, less the name of the file.
_MAX_SOCKET_FOLDER = 90
#: Libraries of NVIDIA's packages that the daemon loads.
_LIBRARIES = ("libnvrtc.so*", "libcublasLt.so*")


class LocalDaemon(Client):
    """A client of a daemon that runs as a child of this process, and ends with it or with `close`."""

    def __init__(self, target: str, process: subprocess.Popen[bytes], folder: Path, **options: Any) -> None:
        """Connect to a daemon. `folder` is deleted with it."""
        super().__init__(target, token="", **options)
        self._process = process
        self._log = folder / "log"
        self._stop = weakref.finalize(self, _stop, process, folder, os.getpid())

    @property
    def pid(self) -> int:
        """Process id of the daemon."""
        return self._process.pid

    @property
    def log(self) -> str:
        """What the daemon has logged so far."""
        return self._log.read_text(errors="replace")

    def __reduce__(self) -> tuple[type[Client], tuple[str]]:
        return Client, (self.target,)

    def close(self) -> None:
        """Close the connections and end the daemon. Later calls raise a ValueError."""
        super().close()
        self._stop()


def serve(
    *,
    models: Sequence[str | os.PathLike[str]] = (),
    data_dir: str | os.PathLike[str] | None = None,
    backend: Literal["auto", "cpu", "cuda"] = "auto",
    settings: Mapping[str, Setting] | None = None,
    log_level: str = "info",
    start_timeout: float = _START_TIMEOUT,
    timeout: float | None = DEFAULT_TIMEOUT,
    **options: Any,
) -> LocalDaemon:
    """Start a daemon on a Unix socket, and return a client of it once it serves.

    The daemon is that of the package accelerd-server (`pip install accelerd[server]`), or the program `accelerd` on the
    path. It ends with `close`, at the end of a `with` statement, or with this process, however that ends. It reads no
    settings file of the machine.

    ```python
    with accelerd.serve() as client:
        vectors = client.embed(["def parse_date(s): ..."])
    ```

    Args:
        models: Models to load, as `accelerd serve --model` takes them: paths, or `hf://owner/name`, with `NAME=` before
            them for another name.
        data_dir: Folder of durable collections; without it all collections are in memory.
        backend: `auto` uses GPUs if there are any, `cpu` only the CPU, and `cuda` fails without a GPU.
        settings: Further settings by name, such as `{"models.hub.allow": "callers"}`.
        log_level: Level of the log that the client's `log` returns.
        start_timeout: Seconds until the daemon must serve.
        timeout: Default timeout of the client's calls.
        options: Further options of `Client`.

    Raises:
        FileNotFoundError: There is no daemon to start.
        RuntimeError: The daemon ended, with the end of its log.
        TimeoutError: The daemon does not serve in time.
    """
    program = _program()
    folder = _folder()
    target = f"unix://{folder}/socket"
    command = [program, "serve", "--parent", str(os.getpid()), "--config", str(folder / "config.toml")]
    command += ["--backend", backend, "--log-level", log_level]
    if data_dir is not None:
        command += ["--data-dir", os.fspath(data_dir)]
    for model in models:
        command += ["--model", os.fspath(model)]
    for name, value in {**_defaults(folder), **(settings or {})}.items():
        command += ["--set", f"{name}={_text(value)}"]
    (folder / "config.toml").touch()
    with open(folder / "log", "wb") as log:
        # A session of its own: Ctrl-C of a notebook or a terminal interrupts a call, and not the daemon.
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        client = LocalDaemon(target, process, folder, timeout=timeout, **options)
    except BaseException:
        _stop(process, folder, os.getpid())
        raise
    try:
        _wait(client, process, time.monotonic() + start_timeout)
    except BaseException:
        client.close()
        raise
    return client


def _program() -> str:
    """Path of the daemon: that of ACCELERD_BIN, of the package accelerd-server, or on the path."""
    if named := os.environ.get("ACCELERD_BIN"):
        return named
    folders = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))]
    # `pip install --target` puts programs into the folder bin of the packages.
    folders.append(str(Path(__file__).resolve().parents[1] / "bin"))
    search = os.pathsep.join([*folders, os.environ.get("PATH", os.defpath)])
    found = shutil.which("accelerd", path=search)
    if found is None:
        raise FileNotFoundError("there is no program accelerd: pip install 'accelerd[server]', or set ACCELERD_BIN")
    return found


def _folder() -> Path:
    """A new folder that only this user can read. The path of a socket is short, wherever temporary files are."""
    temporary = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="accelerd-", dir=temporary if len(temporary) <= _MAX_SOCKET_FOLDER else "/tmp"))


def _defaults(folder: Path) -> dict[str, Setting]:
    """Settings of a daemon that only this process calls."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    settings: dict[str, Setting] = {
        "server.uds_path": folder / "socket",
        "http.listen": "",
        "drain.endpoint_delay": "0s",
        "drain.timeout": "10s",
        "cuda.kernel_cache": cache / "accelerd" / "kernels",
        "cuda.library_path": _nvidia_folders(),
    }
    return settings | {f"server.{port}": "127.0.0.1:0" for port in ("listen", "admin_listen", "health_listen")}


def _nvidia_folders() -> list[Path]:
    """Folders of the libraries in NVIDIA's packages, which are those of accelerd-server[cuda]."""
    spec = find_spec("nvidia")
    packages = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    found = [
        path.parent for package in packages for name in _LIBRARIES for path in sorted(package.glob(f"*/lib/{name}"))
    ]
    return list(dict.fromkeys(found))


def _text(value: Setting) -> str:
    """A value as the daemon's option `--set` takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(_text(part) for part in value)
    return str(value)


def _wait(client: LocalDaemon, process: subprocess.Popen[bytes], until: float) -> None:
    """Return once the daemon serves."""
    while True:
        try:
            # A channel that has failed to connect waits before it tries again.
            if _listens(client.target.removeprefix("unix://")):
                client.devices(timeout=_ATTEMPT_TIMEOUT)
                return
            time.sleep(_POLL_INTERVAL)
        except (UnavailableError, DeadlineError):
            pass
        log = "\n".join(client.log.splitlines()[-_LOG_LINES:])
        if process.poll() is not None:
            raise RuntimeError(f"the daemon ended with status {process.returncode}:\n{log}")
        if time.monotonic() > until:
            raise TimeoutError(f"the daemon does not serve yet:\n{log}")


def _listens(path: str) -> bool:
    """Return whether a process listens on a Unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


def _stop(process: subprocess.Popen[bytes], folder: Path, owner: int) -> None:
    """End the daemon and delete its folder. A fork of its owner leaves both alone."""
    if os.getpid() != owner:
        return
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)
