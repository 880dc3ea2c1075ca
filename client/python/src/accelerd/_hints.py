"""Remedies for calls that fail because of the connection or the credentials."""

from __future__ import annotations

import re

import grpc

from ._credentials import Credentials

#: What gRPC says when a peer accepts connections and closes them before the HTTP/2 handshake, as a TLS server does with
#: plaintext, or with a client that has no certificate.
_CLOSED = re.compile(r"^connections to all backends failing;.*(Socket closed|Connection reset by peer)")
_NO_CERTIFICATE = re.compile(r"CERTIFICATE_REQUIRED|BAD_CERTIFICATE|HANDSHAKE_FAILURE", re.IGNORECASE)
#: What it says of targets that nothing listens on.
_UNREACHABLE = re.compile(
    r"Connection refused|No such file or directory|DNS resolution failed|No route to host|Network is unreachable"
    r"|[Ff]ailed to connect|Connection timed out|Timeout occurred|Host is down"
)
#: What gRPC and the daemon say of calls whose deadline passed.
_DEADLINE = re.compile(r"^deadline exceeded$|^the deadline passed", re.IGNORECASE)
#: What it says of certificates, and of peers that speak no TLS.
_CERTIFICATES = {
    re.compile(r"CERTIFICATE_VERIFY_FAILED: (unable to get|self.signed|certificate signature failure)"): (
        "the authority that signed the daemon's certificate belongs into Tls(ca=...)"
    ),
    re.compile(r"CERTIFICATE_VERIFY_FAILED: certificate has expired"): "the daemon's certificate has expired",
    re.compile(r"is not in peer certificate|Hostname Verification Check failed"): (
        "set the target to a name in the daemon's certificate, or name one with Tls(server_name=...)"
    ),
    re.compile(r"WRONG_VERSION_NUMBER"): (
        "does the daemon serve TLS? without it, use a target with http:// or without a scheme, and no tls"
    ),
}


def hint(code: grpc.StatusCode, message: str, target: str, credentials: Credentials) -> str:
    """Return a remedy for a failed call; empty if there is none."""
    if code is grpc.StatusCode.UNAVAILABLE:
        return _connection_hint(message, target, credentials)
    if code is grpc.StatusCode.UNAUTHENTICATED and credentials.token is None:
        return "set token or the environment variable ACCELERD_TOKEN, or a client certificate by Tls(certificate=...)"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED and _DEADLINE.search(message):
        return "a larger timeout, of the call or of the client, waits longer"
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "longer deadline" in message:
        return "set a larger timeout, of the call or of the client"
    if code is grpc.StatusCode.UNIMPLEMENTED and "http2 header with status" in message:
        return f"is {target} a daemon? a proxy of the environment (http_proxy, no_proxy) may stand between"
    return ""


def _connection_hint(message: str, target: str, credentials: Credentials) -> str:
    tls = credentials.tls
    if tls is None and _CLOSED.search(message):
        return "if the daemon serves TLS, set tls or a target with https://"
    if tls is not None:
        for pattern, remedy in _CERTIFICATES.items():
            if pattern.search(message):
                return remedy
        if _CLOSED.search(message) or _NO_CERTIFICATE.search(message):
            if tls.certificate is None:
                return "if the daemon requires client certificates, set Tls(certificate=..., key=...)"
            return "the daemon may not know the authority that signed the client certificate"
    if _UNREACHABLE.search(message):
        where = "the client's target or the environment variable ACCELERD_SERVER"
        return f"is the daemon running at {target}? `accelerd serve` starts it; {where} names its address"
    return ""
