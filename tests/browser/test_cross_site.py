"""Pages of other sites in Chromium, and what they reach of a daemon on loopback: nothing on any port.

`just browser` runs this; it needs `chromium` on the path.
"""

from __future__ import annotations

import http.server
import json
import os
import re
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from accelerd._methods import EmbedService

START_TIMEOUT = 60.0
# A page that tries to call the daemon at HOST, and shows what became of each try.
PAGE = """<!doctype html><pre id="out">running</pre><script>
const json = { "content-type": "application/json" };
const body = JSON.stringify({ inputs: "secret" });
const tries = {
  json: port => fetch(`http://HOST:${port}/embed`, { method: "POST", headers: json, body }),
  form: port => fetch(`http://HOST:${port}/embed`, { method: "POST", mode: "no-cors", body }),
  blob: port => fetch(`http://HOST:${port}/embed`, { method: "POST", mode: "no-cors", body: new Blob([body]) }),
  read: port => fetch(`http://HOST:${port}/v1/models`),
  web: port => fetch(`http://HOST:${port}METHOD`,
    { method: "POST", headers: { "content-type": "application/grpc-web+proto" }, body: new Uint8Array(5) }),
  grpc: port => fetch(`http://HOST:${port}METHOD`,
    { method: "POST", headers: { "content-type": "application/grpc" }, body: new Uint8Array(5) }),
};
(async () => {
  const outcomes = {};
  for (const port of PORTS)
    for (const [name, attempt] of Object.entries(tries))
      outcomes[`${name}:${port}`] = await attempt(port).then(a => `${a.type} ${a.status}`, () => "failed");
  document.getElementById("out").textContent = JSON.stringify(outcomes);
})();
</script>"""


class Daemon:
    """A daemon on loopback."""

    def __init__(self, folder: Path) -> None:
        held = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
        self.grpc, self.http, admin, self.health = (one.getsockname()[1] for one in held)
        for one in held:
            one.close()
        settings = {"server.admin_listen": admin, "server.health_listen": self.health, "http.listen": self.http}
        flags = [word for key, port in settings.items() for word in ("--set", f"{key}=127.0.0.1:{port}")]
        flags += ["--log-level", "info,accelerd::request=debug", "--set", "telemetry.log_format=json"]
        self.log = folder / "log"
        with open(self.log, "w") as log:
            command = [os.environ["ACCELERD_BIN"], "serve", "--listen", f"127.0.0.1:{self.grpc}", *flags]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        until = time.monotonic() + START_TIMEOUT
        while '"message":"serving"' not in self.log.read_text():
            assert self.process.poll() is None and time.monotonic() < until, self.log.read_text()
            time.sleep(0.05)

    def calls(self) -> list[str]:
        """The calls that reached a service."""
        lines = (json.loads(line) for line in self.log.read_text().splitlines())
        return [line["method"] for line in lines if line["message"] == "call ended"]


@pytest.fixture
def daemon(tmp_path):
    running = Daemon(tmp_path)
    yield running
    running.process.terminate()
    running.process.wait()


@pytest.fixture
def serve():
    """Serves a page from an origin of its own, and returns the port."""
    servers = []

    def start(page: str) -> int:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.end_headers()
                self.wfile.write(page.encode())

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server.server_address[1]

    yield start
    for server in servers:
        server.shutdown()


def outcomes(url: str, folder: Path, *flags: str) -> dict[str, str]:
    """What the page at the URL shows once its script has ended."""
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    command += ["--timeout=20000", "--virtual-time-budget=20000", "--dump-dom", *flags, url]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r'<pre id="out">({.*?})</pre>', shown)
    assert found, shown
    return json.loads(found[1])


def page(host: str, daemon: Daemon) -> str:
    return PAGE.replace("HOST", host).replace("METHOD", EmbedService.LIST_MODELS.path).replace("PORTS", json.dumps([daemon.http, daemon.grpc]))


def test_a_page_of_another_origin_reaches_no_service(daemon, serve, tmp_path):
    port = serve(page("127.0.0.1", daemon))
    found = outcomes(f"http://127.0.0.1:{port}/", tmp_path)
    assert len(found) == 12
    # A response to a request without CORS is opaque: the page learns nothing of it.
    assert set(found.values()) <= {"failed", "opaque 0"}, found
    assert daemon.calls() == []


def test_a_page_whose_name_is_rebound_to_loopback_reaches_no_service(daemon, serve, tmp_path):
    """The page's own name resolves to the daemon, so that the browser takes the daemon's ports for ports of the page's site."""
    port = serve(page("rebound.example", daemon))
    rules = "--host-resolver-rules=MAP rebound.example 127.0.0.1"
    found = outcomes(f"http://rebound.example:{port}/", tmp_path, rules)
    assert set(found.values()) <= {"failed", "opaque 0"}, found
    assert daemon.calls() == []


def test_a_page_on_the_ports_own_origin_is_refused_by_its_host(daemon, tmp_path):
    """What a rebound page could do from the daemon's own port: it has no Origin to give it away, only its Host."""
    rules = "--host-resolver-rules=MAP rebound.example 127.0.0.1"
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    for path in ("docs", "v1/models"):
        url = f"http://rebound.example:{daemon.http}/{path}"
        shown = subprocess.run([*command, "--dump-dom", rules, url], capture_output=True, text=True, timeout=120, check=True)
        assert "are not allowed" in shown.stdout, shown.stdout
    assert daemon.calls() == []


def test_the_page_of_the_documentation_works(daemon, tmp_path):
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--virtual-time-budget=10000", "--dump-dom", f"http://127.0.0.1:{daemon.http}/docs"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    for expected in ("/v1/embeddings", "/v2/rerank", EmbedService.EMBED.path, "Ranks documents"):
        assert expected in shown, expected
