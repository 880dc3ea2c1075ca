"""Measures the time that TLS and tokens add to a small call, compared with a plain connection.

    python3 protected_calls.py --bin FOLDER [--rounds 5]

Starts a daemon for each kind of protection and embeds one text a call with the built-in model, one call at a time and 64 at a
time. The daemons take turns, round by round. Prints the median of the rounds, and their range. Needs openssl.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import secrets
import statistics
import subprocess
import tempfile
from pathlib import Path

import load_daemon
from load_daemon import Daemon

CONCURRENCIES = (1, 64)


def credentials(folder: Path) -> dict[str, tuple[list[str], list[str]]]:
    """Settings of the daemon and options of accelctl for each kind of protection."""
    certificate, key, token = folder / "server.pem", folder / "server.key", secrets.token_urlsafe(32)
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
               "-subj", "/CN=accelerd", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE",
               "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    (folder / "token").write_text(token)
    principals = folder / "principals.toml"
    hashed = f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"
    principals.write_text(f'[[principal]]\nname = "bench"\nrole = "admin"\ntokens = ["{hashed}"]\n')
    tls = [f"tls.certificate={certificate}", f"tls.private_key={key}"]
    auth = [f"auth.principals={principals}"]
    with_token = ["--token-file", str(folder / "token")]
    return {
        "plain": ([], []),
        "token": (auth, with_token),
        "TLS": (tls, ["--tls-ca", str(certificate)]),
        "TLS and token": (tls + auth, ["--tls-ca", str(certificate), *with_token]),
    }


def started(stack: contextlib.ExitStack, given: argparse.Namespace, sets: list[str], options: list[str]) -> Daemon:
    daemon = stack.enter_context(load_daemon.daemon(argparse.Namespace(**{**vars(given), "set": given.set + sets})))
    if "--tls-ca" in options:
        daemon.command = [word.replace("http://", "https://") for word in daemon.command]
    daemon.command += options
    return daemon


def main() -> None:
    parser = load_daemon.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        kinds = credentials(Path(folder))
        daemons = {kind: started(stack, given, *options) for kind, options in kinds.items()}
        measured: dict = {kind: {concurrency: [] for concurrency in CONCURRENCIES} for kind in kinds}
        for _ in range(given.rounds):
            for concurrency in CONCURRENCIES:
                for kind, daemon in daemons.items():
                    words = ["embed", "--batch", 1, "--concurrency", concurrency, "--duration", f"{given.seconds}s"]
                    measured[kind][concurrency].append(daemon.bench(*words))
        results = {"scenario": "protected calls", "machine": load_daemon.machine(daemons["plain"]), "measured": measured}
        load_daemon.save(given, json.loads(json.dumps(results)))
    plain = median(measured["plain"][1], "p50_ms")
    rows = []
    for kind, levels in measured.items():
        alone, rates = levels[1], levels[CONCURRENCIES[1]]
        added = 1000 * (median(alone, "p50_ms") - plain)
        rows.append([kind, span(alone, "p50_ms", 3), span(alone, "p99_ms", 3), f"{added:+.0f} us", span(rates, "calls_per_second", 0)])
    heads = ["connection", "one call, p50 ms", "p99 ms", "added to the p50", f"calls/s, {CONCURRENCIES[1]} in flight"]
    load_daemon.table(heads, rows)


def median(levels: list[dict], key: str) -> float:
    return statistics.median(level[key] for level in levels)


def span(levels: list[dict], key: str, digits: int) -> str:
    """The median of the rounds, and their range."""
    values = [level[key] for level in levels]
    return f"{median(levels, key):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


if __name__ == "__main__":
    main()
