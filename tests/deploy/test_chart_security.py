"""Who may call a release of the chart, and its secrets."""

from pathlib import Path

import pytest
from chart import INSECURE, VALUES, container, merged, notes, pod, render, settings
from helm_python.errors import HelmError


@pytest.fixture(params=VALUES, name="manifests")
def rendered(request):
    return render(VALUES[request.param])


def test_an_unprotected_service_is_refused_unless_it_is_asked_for():
    with pytest.raises(HelmError, match="auth.insecure=true"):
        render({})
    assert settings(render(INSECURE))["auth"] == {"insecure": True}
    assert "WARNING: auth.insecure is true. Everyone" in notes(INSECURE)
    assert "WARNING: auth.insecure is true. Everyone" in notes({"config": INSECURE})
    assert "WARNING" not in notes(VALUES["protected"])
    on_loopback = {"server": {"listen": "127.0.0.1:7433"}, "http": {"listen": "127.0.0.1:7436"}}
    assert "auth" not in settings(render({"config": on_loopback}))
    for port in on_loopback:
        with pytest.raises(HelmError, match="auth.insecure=true"):
            render({"config": {port: on_loopback[port]}})


def test_tokens_in_plaintext_are_refused_unless_they_are_asked_for():
    plaintext = {"auth": {"principalsSecretName": "principals"}}
    with pytest.raises(HelmError, match="needs tls.secretName"):
        render(plaintext)
    asked = merged(plaintext, INSECURE)
    assert settings(render(asked))["auth"]["principals"].endswith("/principals.toml")
    assert "Tokens travel in plaintext" in notes(asked)


def test_client_certificates_without_tls_are_refused():
    with pytest.raises(HelmError, match="clientCASecretName needs tls.secretName"):
        render(INSECURE | {"tls": {"clientCASecretName": "ca"}})


def test_every_file_of_the_settings_is_in_a_mounted_secret():
    manifests = render(VALUES["protected"])
    sections = settings(manifests)
    named = {sections["tls"][key] for key in ("certificate", "private_key", "client_ca")} | {sections["auth"]["principals"]}
    folders = {mount["mountPath"]: mount["name"] for mount in container(manifests)["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod(manifests)["spec"]["volumes"]}
    found = {(volumes[folders[str(Path(file).parent)]]["secret"]["secretName"], Path(file).name) for file in named}
    assert found == {("accelerd-tls", "tls.crt"), ("accelerd-tls", "tls.key"), ("accelerd-client-ca", "ca.crt"),
                     ("accelerd-principals", "principals.toml")}
    assert sections["tls"]["client_certificates"] == "optional" and "insecure" not in sections["auth"]


def test_secrets_are_mounted_so_that_the_kubelet_updates_them(manifests):
    assert not any("subPath" in mount for mount in container(manifests)["volumeMounts"])
    spec = pod(manifests)["spec"]
    secrets = [volume["secret"] for volume in spec["volumes"] if "secret" in volume]
    # Readable by the group of the pod, which owns the volume, and by nobody else.
    assert all(secret["defaultMode"] == 0o440 for secret in secrets) and spec["securityContext"]["fsGroup"] == 65532


def test_the_service_and_the_notes_say_whether_there_is_tls():
    def protocols(values, service):
        return [port["appProtocol"] for port in render(values)[service]["spec"]["ports"] if port["name"] in ("grpc", "http")]

    for service in ("Service", "HeadlessService"):
        assert protocols(INSECURE, service) == ["kubernetes.io/h2c", "http"]
        assert protocols(VALUES["protected"], service) == ["https", "https"]
    assert "--server http://" in notes(INSECURE) and "--server https://" in notes(VALUES["protected"])
