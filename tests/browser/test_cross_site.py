"""Pages of other sites in Chromium, and what they reach of a daemon on loopback: nothing on any port.

`just console` runs this, with `chromium` on the path.
"""

from __future__ import annotations

import http.server
import json
import re
import subprocess
import threading
import urllib.request
from pathlib import Path

import loopback
import pytest
from accelerd._methods import EmbedService

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

    def __init__(self, given: dict[str, str]) -> None:
        self.http, self.grpc = (given[name].rpartition(":")[2] for name in ("HTTP__LISTEN", "SERVER__LISTEN"))
        self._metrics = f"http://{given['SERVER__ADMIN_LISTEN']}/metrics"

    def calls(self) -> list[str]:
        """The methods that were called."""
        with urllib.request.urlopen(self._metrics) as metrics:
            return re.findall(r'^accelerd_request_duration_seconds_count{.*method="([^"]*)"', metrics.read().decode(), re.MULTILINE)


@pytest.fixture
def daemon():
    with loopback.serve({}) as given:
        yield Daemon(given)


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
    return PAGE.replace("HOST", host).replace("METHOD", EmbedService.LIST_MODELS.path).replace("PORTS", f"[{daemon.http}, {daemon.grpc}]")


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


def test_a_call_is_seen(daemon):
    with urllib.request.urlopen(f"http://127.0.0.1:{daemon.http}/v1/models") as models:
        assert json.load(models)["object"] == "list"
    assert daemon.calls() == [EmbedService.LIST_MODELS.path[1:]]


def test_the_page_of_the_documentation_works(daemon, tmp_path):
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--virtual-time-budget=10000", "--dump-dom", f"http://127.0.0.1:{daemon.http}/docs"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    for expected in ("/v1/embeddings", "/v2/rerank", EmbedService.EMBED.path, "Ranks documents"):
        assert expected in shown, expected
