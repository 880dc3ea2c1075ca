"""The Helm chart lints, renders and is valid Kubernetes for every values file it ships."""

import re
import tomllib
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from helm_python.chart import Chart, lint
from helm_python.errors import HelmError

CHART = Path(__file__).parents[2] / "helm" / "accelerd"
INSECURE = {"auth": {"insecure": True}}
VALUES = {
    "gpu": INSECURE,
    "cpu": INSECURE | yaml.safe_load((CHART / "values-cpu.yaml").read_text()),
    "protected": yaml.safe_load((CHART / "ci" / "protected-values.yaml").read_text()),
    "shared-gpu": yaml.safe_load((CHART / "ci" / "shared-gpu-values.yaml").read_text()),
}
OLDEST, NEWEST = "1.27", "1.37"


def files(values):
    chart = Chart.load(CHART)
    return chart.render(chart.merge_values(values), name="test", namespace="default")


def render(values):
    documents = [yaml.safe_load(text) for path, text in files(values).items() if path.endswith(".yaml")]
    return {document["kind"]: document for document in documents if document}


@pytest.fixture(params=VALUES, name="manifests")
def rendered(request):
    return render(VALUES[request.param])


def container(manifests):
    return manifests["Deployment"]["spec"]["template"]["spec"]["containers"][0]


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_the_chart_lints_without_warnings(values):
    report = lint(CHART, values, strict=True)
    assert report["errors"] in (None, []), report
    assert all(message["severity"] <= 1 for message in report["messages"] or []), report


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_every_manifest_is_valid_kubernetes(manifests, version):
    assert {"Deployment", "Service", "ConfigMap", "ServiceAccount"} <= manifests.keys()
    for manifest in manifests.values():
        kubernetes_validate.validate(manifest, version, strict=True)


def test_probes_use_grpc_on_the_health_port(manifests):
    ports = {port["name"]: port["containerPort"] for port in container(manifests)["ports"]}
    for probe, service in {"startupProbe": "readiness", "livenessProbe": "liveness", "readinessProbe": "readiness"}.items():
        assert container(manifests)[probe]["grpc"] == {"port": ports["health"], "service": service}


def test_a_gpu_is_asked_for_by_name_and_count():
    assert container(render(VALUES["gpu"]))["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert container(render(VALUES["shared-gpu"]))["resources"]["limits"]["nvidia.com/gpu.shared"] == 1


def test_without_a_gpu_none_is_asked_for_and_the_cpu_image_is_used():
    manifests = render(VALUES["cpu"])
    assert not any("nvidia" in name for name in container(manifests)["resources"]["limits"])
    assert container(manifests)["image"].endswith("-cpu")
    assert "tolerations" not in manifests["Deployment"]["spec"]["template"]["spec"]


def test_the_pod_is_restarted_when_the_configuration_changes():
    def checksum(values):
        return render(INSECURE | values)["Deployment"]["spec"]["template"]["metadata"]["annotations"]["checksum/config"]

    assert checksum({}) != checksum({"config": {"telemetry": {"log_level": "debug"}}})


def test_the_grace_period_is_longer_than_the_drain(manifests):
    spec = manifests["Deployment"]["spec"]["template"]["spec"]
    assert spec["terminationGracePeriodSeconds"] > 30 + 5


UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "B": 1, "": 1}


def size(text):
    number, unit = re.fullmatch(r"([0-9]+)([A-Za-z]*)", str(text)).groups()
    return int(number) * UNITS[unit]


def unfit_memory(manifests):
    """Settings that leave too little of the pod's limit for what the daemon's ledger does not count."""
    limit = size(container(manifests)["resources"]["limits"]["memory"])
    settings = tomllib.loads(manifests["ConfigMap"]["data"]["config.toml"]).get("memory", {})
    given = {key: size(value) for key, value in settings.items() if value != "auto"}
    fits = given.get("host_limit", 0) <= limit * 0.8 and given.get("reserve", limit) >= limit * 0.2
    return {} if fits else given


def test_the_ledger_of_memory_fits_into_the_limit(manifests):
    assert unfit_memory(manifests) == {}


@pytest.mark.parametrize("settings", [{"host_limit": "15GiB"}, {"reserve": "1GiB"}])
def test_a_ledger_that_does_not_fit_would_be_noticed(settings):
    assert unfit_memory(render(INSECURE | {"config": {"memory": settings}})) != {}


def test_a_pod_without_a_limit_of_memory_is_refused():
    chart = Chart.load(CHART)
    with pytest.raises(HelmError):
        chart.validate_schema(chart.merge_values({"resources": {"limits": {"memory": ""}}}))


def test_the_container_has_no_privileges(manifests):
    context = container(manifests)["securityContext"]
    assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
    assert context["capabilities"]["drop"] == ["ALL"]


def test_values_that_do_not_fit_the_schema_are_refused():
    with pytest.raises(HelmError):
        chart = Chart.load(CHART)
        chart.validate_schema(chart.merge_values({"gpu": {"count": -1}}))


def settings(manifests):
    return tomllib.loads(manifests["ConfigMap"]["data"]["config.toml"])


def notes(values):
    return next(text for path, text in files(values).items() if path.endswith("NOTES.txt"))


def with_values(values, **sections):
    return {**values, **{name: {**values.get(name, {}), **section} for name, section in sections.items()}}


def test_an_unprotected_service_is_refused_unless_it_is_asked_for():
    with pytest.raises(HelmError, match="auth.insecure=true"):
        render({})
    assert settings(render(INSECURE))["auth"] == {"insecure": True}
    assert "WARNING: auth.insecure is true. Everyone" in notes(INSECURE)
    assert "WARNING: auth.insecure is true. Everyone" in notes({"config": INSECURE})
    assert "WARNING" not in notes(VALUES["protected"])
    on_loopback = {"config": {"server": {"listen": "127.0.0.1:7433"}}}
    assert "auth" not in settings(render(on_loopback))


def test_tokens_in_plaintext_are_refused_unless_they_are_asked_for():
    plaintext = {"auth": {"principalsSecretName": "principals"}}
    with pytest.raises(HelmError, match="needs tls.secretName"):
        render(plaintext)
    asked = with_values(plaintext, auth={"insecure": True})
    assert settings(render(asked))["auth"]["principals"].endswith("/principals.toml")
    assert "Tokens travel in plaintext" in notes(asked)


def test_client_certificates_without_tls_are_refused():
    with pytest.raises(HelmError, match="clientCASecretName needs tls.secretName"):
        render(with_values(INSECURE, tls={"clientCASecretName": "ca"}))


def test_every_file_of_the_settings_is_in_a_mounted_secret():
    manifests = render(VALUES["protected"])
    sections = settings(manifests)
    named = {sections["tls"][key] for key in ("certificate", "private_key", "client_ca")} | {sections["auth"]["principals"]}
    folders = {mount["mountPath"]: mount["name"] for mount in container(manifests)["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in manifests["Deployment"]["spec"]["template"]["spec"]["volumes"]}
    found = {(volumes[folders[str(Path(file).parent)]]["secret"]["secretName"], Path(file).name) for file in named}
    assert found == {("accelerd-tls", "tls.crt"), ("accelerd-tls", "tls.key"), ("accelerd-client-ca", "ca.crt"),
                     ("accelerd-principals", "principals.toml")}
    assert sections["tls"]["client_certificates"] == "optional" and "insecure" not in sections["auth"]


def test_secrets_are_mounted_so_that_the_kubelet_updates_them(manifests):
    assert not any("subPath" in mount for mount in container(manifests)["volumeMounts"])
    spec = manifests["Deployment"]["spec"]["template"]["spec"]
    secrets = [volume["secret"] for volume in spec["volumes"] if "secret" in volume]
    # Readable by the group of the pod, which owns the volume, and by nobody else.
    assert all(secret["defaultMode"] == 0o440 for secret in secrets) and spec["securityContext"]["fsGroup"] == 65532


def test_the_service_and_the_notes_say_whether_there_is_tls():
    def protocol(values):
        return next(port["appProtocol"] for port in render(values)["Service"]["spec"]["ports"] if port["name"] == "grpc")

    assert (protocol(INSECURE), protocol(VALUES["protected"])) == ("kubernetes.io/h2c", "https")
    assert "--server http://" in notes(INSECURE) and "--server https://" in notes(VALUES["protected"])


@pytest.mark.parametrize("values", [{"tls": {"clientCertificates": "never"}}, {"tls": {"secret": "a"}},
                                    {"auth": {"insecure": "yes"}}, {"auth": {"principals": "a"}}])
def test_misspelt_security_values_are_refused(values):
    chart = Chart.load(CHART)
    with pytest.raises(HelmError):
        chart.validate_schema(chart.merge_values(values))
