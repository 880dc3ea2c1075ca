"""TLS and tokens: whom a client trusts, and how it identifies itself."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import grpc

#: PEM: the text as bytes, or the path of a file, which is read when the client is created and when it connects.
Pem: TypeAlias = "bytes | str | os.PathLike[str]"
#: Schemes of Unix sockets.
_UNIX = ("unix:", "unix-abstract:")
#: Schemes of lists of addresses, which gRPC balances.
ADDRESS_LISTS = ("ipv4:", "ipv6:")
#: Schemes of gRPC.
_SCHEMES = ("dns", "ipv4", "ipv6", "unix", "unix-abstract", "vsock", "xds")
_PORT = re.compile(r"(?:\[[^\]]*\]|[^:/,\[\]]*):([0-9]{1,9})")


@dataclass(frozen=True, kw_only=True)
class Tls:
    """TLS settings of a client.

    `ca`, `certificate` and `key` are PEM text as `bytes`, or paths of PEM files. A pickled client contains the text; of
    files it contains only the paths.
    """

    #: Certificate authorities to trust instead of gRPC's own list of public ones.
    ca: Pem | None = None
    #: Client certificate with its chain, for daemons that verify their clients (mTLS). Needs `key`.
    certificate: Pem | None = None
    #: Private key of the client certificate.
    key: Pem | None = field(default=None, repr=False)
    #: Name to expect in the daemon's certificate instead of the host of the target.
    server_name: str | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            missing, given = ("key", "certificate") if self.key is None else ("certificate", "key")
            raise ValueError(f"tls: expected both certificate and key, got {given} without {missing}")

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """Read all files."""
        return grpc.ssl_channel_credentials(
            root_certificates=_read("ca", self.ca, b"CERTIFICATE"),
            private_key=_read("key", self.key, b"PRIVATE KEY"),
            certificate_chain=_read("certificate", self.certificate, b"CERTIFICATE"),
        )


@dataclass(frozen=True)
class Credentials:
    """What secures the connections of a client."""

    #: None means plaintext.
    tls: Tls | None = None
    #: Bearer token.
    token: str | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, targets: Sequence[str], tls: Tls | bool | None, token: str | None, allow_plaintext_token: bool
    ) -> tuple[tuple[str, ...], Credentials]:
        """Validate settings. Returns the targets without their schemes."""
        each = [cls._of_one(target, tls, token, allow_plaintext_token) for target in targets]
        found = each[0][1]
        if any(credentials != found for _, credentials in each):
            raise ValueError(f"target: expected https:// for all addresses or for none, got {', '.join(targets)}")
        return tuple(plain for plain, _ in each), found

    @classmethod
    def _of_one(
        cls, target: str, tls: Tls | bool | None, token: str | None, allow_plaintext_token: bool
    ) -> tuple[str, Credentials]:
        scheme, _, rest = target.partition("://")
        has_scheme = scheme in ("http", "https") and target != scheme
        _check_target(target, rest if has_scheme else target)
        settings = _tls(tls, is_default=has_scheme and scheme == "https")
        if settings is not None and (is_unix_socket(target) or (has_scheme and scheme == "http")):
            raise ValueError(f"tls: expected a target with https:// or without a scheme, got {target!r}")
        plain = (rest if has_scheme else target).removesuffix("/")
        secret = _token(token)
        if secret is not None and settings is None and not allow_plaintext_token and not is_local(plain):
            raise ValueError(
                f"token: refusing to send it to {plain!r} in plaintext, where others can read it: set tls, or "
                "allow_plaintext_token=True if the network encrypts by other means"
            )
        if settings is not None:
            settings.channel_credentials()  # Files that cannot be read are an error of the caller, not of a call.
        return plain, cls(settings, secret)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the metadata of every call."""
        return () if self.token is None else (("authorization", f"Bearer {self.token}"),)


PLAINTEXT = Credentials()


def is_unix_socket(target: str) -> bool:
    """Return whether a target is a Unix socket."""
    return target.startswith(_UNIX)


def _check_target(target: str, plain: str) -> None:
    """Refuse addresses that gRPC would take for others: it reduces ports modulo 65,536."""
    scheme, separator, _ = plain.partition("://")
    port = _PORT.fullmatch(plain.removesuffix("/"))
    is_known = not separator or scheme in _SCHEMES
    if not plain.strip("/") or not is_known or (port is not None and not 1 <= int(port[1]) <= 65_535):
        expected = "host:port, https://host:port or unix:///path, with a port from 1 to 65535"
        raise ValueError(f"target: expected {expected}, got {target!r}")


def _tls(tls: object, *, is_default: bool) -> Tls | None:
    if tls is None:
        ca = os.environ.get("ACCELERD_TLS_CA")
        return Tls(ca=ca or None) if is_default else None
    if isinstance(tls, bool):
        if not tls and is_default:
            raise ValueError("tls: expected True or a Tls for a target with https://, got False")
        return Tls() if tls else None
    if not isinstance(tls, Tls):
        raise TypeError(f"tls: expected a Tls or a bool, got {type(tls).__name__}")
    return tls


def _token(token: object) -> str | None:
    given = os.environ.get("ACCELERD_TOKEN") if token is None else token
    if not isinstance(given, str | None):
        raise TypeError(f"token: expected a str, got {type(given).__name__}")
    if not given:
        return None
    if not all("!" <= character <= "~" for character in given):
        raise ValueError("token: expected visible ASCII characters without spaces")
    return given


def is_local(target: str) -> bool:
    """Return whether a target is on this machine: nobody on the network can read what is sent to it."""
    if is_unix_socket(target):
        return True
    if target.startswith(ADDRESS_LISTS):
        addresses = target.partition(":")[2].split(",")
        return all(is_local(address) for address in addresses)
    host = target.rsplit(":", 1)[0] if target.count(":") == 1 or target.startswith("[") else target
    host = host.removeprefix("[").removesuffix("]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _read(name: str, pem: Pem | None, label: bytes) -> bytes | None:
    if pem is None:
        return None
    text, origin = (pem, "") if isinstance(pem, bytes) else (Path(pem).read_bytes(), f" in {os.fspath(pem)}")
    if label + b"-----" not in text:
        raise ValueError(f"tls: {name}: expected PEM with a {label.decode().lower()}{origin}")
    return text
