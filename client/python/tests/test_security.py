"""TLS and tokens, against a gRPC server with TLS."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from certificates import Authority, CertifiedKey

from accelerd import (
    AccelerdError,
    Client,
    PermissionDeniedError,
    Tls,
    UnauthenticatedError,
    UnavailableError,
)
from accelerd._call import Settings
from accelerd._credentials import PLAINTEXT
from accelerd._hints import hint
from accelerd._proto import embed_pb2, embed_pb2_grpc, error_pb2
from accelerd.aio import AsyncClient

TOKEN = "s3cret"


class Protected(embed_pb2_grpc.EmbedServiceServicer):
    """Lists models to callers with the token."""

    def __init__(self) -> None:
        self.calls = 0
        self.refusal: grpc.StatusCode | None = None

    def _enter(self, context: grpc.ServicerContext) -> None:
        self.calls += 1
        if ("authorization", f"Bearer {TOKEN}") not in context.invocation_metadata():
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "unknown token")
        if self.refusal is not None:
            context.abort(self.refusal, "not for this principal")

    def ListModels(self, request, context):  # noqa: N802
        self._enter(context)
        return embed_pb2.ListModelsResponse(models=[embed_pb2.Model(name="toy")])

    def EmbedStream(self, requests, context):  # noqa: N802
        self._enter(context)
        for request in requests:
            failed = error_pb2.ItemError(code=grpc.StatusCode.INTERNAL.value[0], message="no model")
            yield embed_pb2.EmbedStreamResponse(sequence=request.sequence, error=failed)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def server_key(authority: Authority) -> CertifiedKey:
    return authority.issue("localhost", "127.0.0.1")


Served = tuple[Protected, int]


@pytest.fixture
def serve() -> Iterator[Callable[[grpc.ServerCredentials | None], Served]]:
    servers = []

    def start(credentials: grpc.ServerCredentials | None) -> Served:
        servicer, server = Protected(), grpc.server(ThreadPoolExecutor(2))
        embed_pb2_grpc.add_EmbedServiceServicer_to_server(servicer, server)
        address = "127.0.0.1:0"
        port = server.add_secure_port(address, credentials) if credentials else server.add_insecure_port(address)
        server.start()
        servers.append(server)
        return servicer, port

    yield start
    for server in servers:
        server.stop(None)


@pytest.fixture
def secure(serve, server_key: CertifiedKey) -> Served:
    return serve(grpc.ssl_server_credentials([(server_key.key, server_key.certificate)]))


@pytest.fixture
def mutual(serve, server_key: CertifiedKey, authority: Authority) -> Served:
    keys = [(server_key.key, server_key.certificate)]
    return serve(grpc.ssl_server_credentials(keys, authority.certificate, require_client_auth=True))


def failure(target: str, **settings: Any) -> AccelerdError:
    with Client(target, timeout=20, attempts=1, **settings) as client, pytest.raises(AccelerdError) as failed:
        client.models()
    return failed.value


def test_calls_over_tls_carry_the_token(secure: Served, authority: Authority, tmp_path: Path) -> None:
    _, port = secure
    file = tmp_path / "ca.pem"
    file.write_bytes(authority.certificate)
    for target in (f"localhost:{port}", f"https://localhost:{port}", f"https://127.0.0.1:{port}/"):
        for ca in (authority.certificate, file, str(file)):
            with Client(target, tls=Tls(ca=ca), token=TOKEN) as client:
                assert client.models()[0].name == "toy"
                assert [outcome.sequence for outcome in client.embed_stream([["a"], ["b"]])] == [0, 1]


def test_the_asyncio_client_has_the_same_credentials(secure: Served, authority: Authority) -> None:
    _, port = secure

    async def main() -> None:
        async with AsyncClient(f"localhost:{port}", tls=Tls(ca=authority.certificate), token=TOKEN) as client:
            assert (await client.models())[0].name == "toy"
            assert [outcome.sequence async for outcome in client.embed_stream([["a"]])] == [0]
        async with AsyncClient(f"localhost:{port}", tls=Tls(ca=authority.certificate), token="wrong") as client:
            with pytest.raises(UnauthenticatedError):
                await client.models()

    asyncio.run(main())


def test_credentials_come_from_the_environment_unless_given(
    secure: Served, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, port = secure
    (tmp_path / "ca.pem").write_bytes(authority.certificate)
    monkeypatch.setenv("ACCELERD_SERVER", f"https://localhost:{port}")
    monkeypatch.setenv("ACCELERD_TLS_CA", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("ACCELERD_TOKEN", TOKEN)
    with Client() as client:
        assert client.models()[0].name == "toy"
    with Client(token="") as client, pytest.raises(UnauthenticatedError):
        client.models()


def test_a_daemon_of_an_unknown_authority_is_refused_with_the_reason(secure: Served, authority: Authority) -> None:
    servicer, port = secure
    for tls in (True, Tls(), Tls(ca=Authority().certificate)):
        # One address: gRPC reports the error of the last one that a name has.
        refused = failure(f"127.0.0.1:{port}", tls=tls)
        assert isinstance(refused, UnavailableError) and "CERTIFICATE_VERIFY_FAILED" in str(refused), refused
        assert "Tls(ca=...)" in str(refused)
    other = failure(f"127.0.0.1:{port}", tls=Tls(ca=authority.certificate, server_name="db.example.com"))
    assert "db.example.com" in str(other)
    assert servicer.calls == 0


def test_the_name_in_the_certificate_may_differ_from_the_host(serve, authority: Authority) -> None:
    key = authority.issue("accelerd.example.com")
    _, port = serve(grpc.ssl_server_credentials([(key.key, key.certificate)]))
    assert isinstance(failure(f"localhost:{port}", tls=Tls(ca=authority.certificate)), UnavailableError)
    named = Tls(ca=authority.certificate, server_name="accelerd.example.com")
    with Client(f"localhost:{port}", tls=named, token=TOKEN) as client:
        assert client.models()[0].name == "toy"


def test_plaintext_to_a_daemon_with_tls_says_what_to_try(secure: Served) -> None:
    _, port = secure
    for target in (f"127.0.0.1:{port}", f"http://127.0.0.1:{port}"):
        refused = failure(target)
        assert isinstance(refused, UnavailableError) and "if the daemon serves TLS" in str(refused), refused


def test_tls_to_a_daemon_without_it_fails_with_the_reason(serve, authority: Authority) -> None:
    _, port = serve(None)
    refused = failure(f"127.0.0.1:{port}", tls=Tls(ca=authority.certificate))
    assert isinstance(refused, UnavailableError) and "WRONG_VERSION_NUMBER" in str(refused), refused
    assert "does the daemon serve TLS? without it, use a target with http://" in str(refused)


def test_an_address_without_a_daemon_says_how_to_start_one(tmp_path: Path) -> None:
    for target in ("127.0.0.1:1", f"unix://{tmp_path}/nothing", "nowhere.invalid:7433"):
        refused = failure(target)
        assert isinstance(refused, UnavailableError), refused
        assert f"is the daemon running at {target}? `accelerd serve` starts it" in str(refused)
        assert "ACCELERD_SERVER" in str(refused)
        with Client(target, attempts=1) as client, pytest.raises(UnavailableError, match="is the daemon running at"):
            list(client.embed_stream([["a"]]))


def test_a_name_that_is_not_in_the_certificate_says_where_to_set_it(secure: Served, authority: Authority) -> None:
    _, port = secure
    other = failure(f"127.0.0.1:{port}", tls=Tls(ca=authority.certificate, server_name="db.example.com"))
    assert "name one with Tls(server_name=...)" in str(other)


def test_a_missing_or_unknown_certificate_of_the_client_is_named(mutual: Served, authority: Authority) -> None:
    _, port = mutual
    without = failure(f"127.0.0.1:{port}", tls=Tls(ca=authority.certificate))
    assert "set Tls(certificate=..., key=...)" in str(without)
    unknown = Authority().issue("caller", is_client=True)
    tls = Tls(ca=authority.certificate, certificate=unknown.certificate, key=unknown.key)
    assert "may not know the authority that signed the client certificate" in str(failure(f"127.0.0.1:{port}", tls=tls))


def test_a_missing_token_says_where_to_set_it_and_a_wrong_one_does_not(serve) -> None:
    _, port = serve(None)
    assert "set token or the environment variable ACCELERD_TOKEN" in str(failure(f"127.0.0.1:{port}"))
    assert "ACCELERD_TOKEN" not in str(failure(f"127.0.0.1:{port}", token="wrong"))


def test_a_deadline_that_passed_names_the_timeout_and_the_time_limit_of_a_function_does_not() -> None:
    passed = grpc.StatusCode.DEADLINE_EXCEEDED
    assert "a larger timeout" in hint(passed, "Deadline Exceeded", "host:1", PLAINTEXT)
    assert "a larger timeout" in hint(passed, "the deadline passed after 5s in the queue", "host:1", PLAINTEXT)
    assert hint(passed, "the function did not end within 5s", "host:1", PLAINTEXT) == ""


@pytest.mark.parametrize("variable", ["grpc_proxy", "https_proxy", "http_proxy"])
def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    serve, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, port = serve(None)
    target = f"127.0.0.1:{port}"
    # Nothing listens there.
    monkeypatch.setenv(variable, "http://127.0.0.1:9")
    for local in (target, f"http://{target}", f"localhost:{port}"):
        with Client(local, timeout=10, attempts=1, token=TOKEN) as client:
            assert client.models()[0].name == "toy"

    async def main() -> list[Any]:
        async with AsyncClient(target, timeout=10, attempts=1, token=TOKEN) as client:
            return await client.models()

    assert asyncio.run(main())[0].name == "toy"
    options = [dict(Settings.of(at, None, 1, 1, 1).channel_options(at)) for at in ("daemon.example:7433", "unix:///a")]
    assert [named.get("grpc.enable_http_proxy") for named in options] == [None, 0]


def test_an_answer_of_a_proxy_names_the_variables_of_proxies() -> None:
    message = "Received http2 header with status: 404"
    assert "http_proxy" in hint(grpc.StatusCode.UNIMPLEMENTED, message, "host:1", PLAINTEXT)
    assert hint(grpc.StatusCode.UNIMPLEMENTED, "unknown method", "host:1", PLAINTEXT) == ""


def test_a_daemon_that_requires_certificates_accepts_only_those_of_its_authority(
    mutual: Served, authority: Authority, tmp_path: Path
) -> None:
    servicer, port = mutual
    known, unknown = authority.issue("caller", is_client=True), Authority().issue("caller", is_client=True)
    (tmp_path / "certificate.pem").write_bytes(known.certificate)
    (tmp_path / "key.pem").write_bytes(known.key)
    files = Tls(ca=authority.certificate, certificate=tmp_path / "certificate.pem", key=tmp_path / "key.pem")
    for tls in (files, Tls(ca=authority.certificate, certificate=known.certificate, key=known.key)):
        with Client(f"localhost:{port}", tls=tls, token=TOKEN) as client:
            assert client.models()[0].name == "toy"
    calls = servicer.calls
    assert isinstance(failure(f"localhost:{port}", tls=Tls(ca=authority.certificate)), UnavailableError)
    other = Tls(ca=authority.certificate, certificate=unknown.certificate, key=unknown.key)
    assert isinstance(failure(f"localhost:{port}", tls=other), UnavailableError)
    assert servicer.calls == calls


def test_refused_credentials_have_errors_of_their_own_and_are_not_retried(secure: Served, authority: Authority) -> None:
    servicer, port = secure
    tls = Tls(ca=authority.certificate)
    for token in (None, "wrong"):
        servicer.calls = 0
        with Client(f"localhost:{port}", tls=tls, token=token) as client, pytest.raises(UnauthenticatedError):
            client.models()
        assert servicer.calls == 1
    servicer.refusal = grpc.StatusCode.PERMISSION_DENIED
    with Client(f"localhost:{port}", tls=tls, token=TOKEN) as client, pytest.raises(PermissionDeniedError) as denied:
        client.models()
    assert isinstance(denied.value, PermissionError) and "not for this principal" in str(denied.value)


@pytest.mark.parametrize("target", ["10.0.0.1:7433", "http://db.example.com:7433", "dns:///db:7433", "[fe80::1]:1"])
def test_a_token_is_not_sent_in_plaintext_to_another_machine(target: str) -> None:
    for cls in (Client, AsyncClient):
        with pytest.raises(ValueError, match=r"token: refusing to send it to .* in plaintext") as refused:
            cls(target, token=TOKEN)
        assert TOKEN not in str(refused.value)
    Client(target, token=TOKEN, allow_plaintext_token=True).close()


@pytest.mark.parametrize("target", ["localhost:1", "127.0.0.1:1", "[::1]:1", "unix:///run/a.sock", "unix:a.sock"])
def test_a_token_may_stay_on_this_machine_in_plaintext(target: str) -> None:
    Client(target, token=TOKEN).close()


def test_a_token_over_plaintext_reaches_a_daemon_on_this_machine(serve) -> None:
    _, port = serve(None)
    with Client(f"127.0.0.1:{port}", token=TOKEN) as client:
        assert client.models()[0].name == "toy"


@pytest.mark.parametrize(
    ("settings", "cls", "message"),
    [
        ({"tls": 5}, TypeError, "tls: expected a Tls or a bool, got int"),
        ({"target": "http://a:1", "tls": True}, ValueError, "tls: expected a target with https://"),
        ({"target": "unix:///a", "tls": Tls()}, ValueError, "tls: expected a target with https://"),
        ({"target": "https://a:1", "tls": False}, ValueError, "tls: expected True or a Tls for a target with https://"),
        ({"tls": Tls(ca=b"no PEM")}, ValueError, "tls: ca: expected PEM with a certificate"),
        ({"tls": Tls(ca="/nowhere/ca.pem")}, FileNotFoundError, "/nowhere/ca.pem"),
        ({"token": 5}, TypeError, "token: expected a str, got int"),
        ({"token": "two words"}, ValueError, "token: expected visible ASCII characters without spaces"),
        ({"token": "a\n"}, ValueError, "token: expected visible ASCII characters without spaces"),
    ],
)
def test_credentials_that_make_no_sense_are_refused(settings: dict, cls: type[Exception], message: str) -> None:
    with pytest.raises(cls, match=message):
        Client(**settings)


def test_a_certificate_needs_its_key() -> None:
    with pytest.raises(ValueError, match="expected both certificate and key, got certificate without key"):
        Tls(certificate=b"")
    with pytest.raises(ValueError, match="expected both certificate and key, got key without certificate"):
        Tls(key=b"")


def test_representations_hide_tokens_and_keys() -> None:
    tls = Tls(certificate=b"-----BEGIN CERTIFICATE-----", key=b"-----BEGIN PRIVATE KEY-----hidden")
    client = Client("https://localhost:1", tls=tls, token=TOKEN)
    shown = f"{client!r} {client._caller.settings!r} {tls!r}"
    assert TOKEN not in shown and "hidden" not in shown


def test_a_pickled_client_keeps_its_credentials(secure: Served, authority: Authority) -> None:
    _, port = secure
    with Client(f"localhost:{port}", tls=Tls(ca=authority.certificate), token=TOKEN) as client:
        again = pickle.loads(pickle.dumps(client))
    with again:
        assert again.models()[0].name == "toy"
