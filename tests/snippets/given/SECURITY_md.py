import hashlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.append(f"{root}/client/python/tests")
import certificates

authority = certificates.Authority()
issued = authority.issue("localhost")
Path(folder, "etc").mkdir()
for name, pem in {"tls.crt": issued.certificate, "tls.key": issued.key, "client-ca.crt": authority.certificate}.items():
    Path(folder, "etc", name).write_bytes(pem)
Path(folder, "etc/tls.key").chmod(0o600)
Path(folder, "ca.pem").write_bytes(authority.certificate)
token = "a-token-of-32-characters-or-more"
free = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
ports = [one.getsockname()[1] for one in free]
for one in free:
    one.close()
replaced["/etc/accelerd/principals.toml"] = f"{folder}/principals.toml"
replaced["/etc/accelerd"] = f"{folder}/etc"
replaced["sha256:..."] = f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"
replaced["0.0.0.0:7433"] = f"127.0.0.1:{ports[0]}"
replaced["0.0.0.0:7436"] = f"127.0.0.1:{ports[1]}"
replaced["accelerd.example.com:7433"] = f"localhost:{ports[0]}"
replaced["ACCELERD_TOKEN=..."] = f"ACCELERD_TOKEN={token}"


def start():
    """Start the daemon of the settings in the document, which ends with this process."""
    Path(folder, "principals.toml").chmod(0o600)
    command = [os.environ["ACCELERD_BIN"], "serve", "--config", f"{folder}/accelerd.toml", "--parent", str(os.getpid())]
    settings = ("server.admin_listen=127.0.0.1:0", "server.health_listen=127.0.0.1:0", "backend.kind=cpu")
    with open(f"{folder}/protected.log", "w") as log:
        process = subprocess.Popen([*command, *(word for one in settings for word in ("--set", one))], stdout=log, stderr=log)
    while socket.socket().connect_ex(("127.0.0.1", ports[0])):
        assert process.poll() is None, Path(folder, "protected.log").read_text()
        time.sleep(0.02)


before["accelctl --server"] = "start()"
