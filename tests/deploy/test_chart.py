"""The Helm chart lints, renders and is valid Kubernetes for every values file it ships."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from helm_python.chart import Chart, lint
from helm_python.errors import HelmError

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "accelerd"
IMAGE = tomllib.loads((ROOT / "deploy/image.toml").read_text())
DEFAULTS = tomllib.loads((ROOT / "server/config/default.toml").read_text())
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
    return {kind(document): document for document in documents if document}


def kind(document):
    return "HeadlessService" if document.get("spec", {}).get("clusterIP") == "None" else document["kind"]


@pytest.fixture(params=VALUES, name="manifests")
def rendered(request):
    return render(VALUES[request.param])


def pod(manifests):
    (workload,) = (manifests[kind] for kind in ("Deployment", "StatefulSet") if kind in manifests)
    return workload["spec"]["template"]


def container(manifests):
    return pod(manifests)["spec"]["containers"][0]


def validate(values):
    chart = Chart.load(CHART)
    chart.validate_schema(chart.merge_values(values))


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_the_chart_lints_without_warnings(values):
    report = lint(CHART, values, strict=True)
    assert report["errors"] in (None, []), report
    assert all(message["severity"] <= 1 for message in report["messages"] or []), report


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_every_manifest_is_valid_kubernetes(manifests, version):
    assert {"Service", "ConfigMap", "ServiceAccount"} <= manifests.keys()
    assert len({"Deployment", "StatefulSet"} & manifests.keys()) == 1
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
    assert "tolerations" not in pod(manifests)["spec"]


def test_the_pod_is_restarted_when_the_configuration_changes():
    def checksum(values):
        return pod(render(INSECURE | values))["metadata"]["annotations"]["checksum/config"]

    assert checksum({}) != checksum({"config": {"telemetry": {"log_level": "debug"}}})


def test_the_grace_period_is_longer_than_the_drain(manifests):
    spec = pod(manifests)["spec"]
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
    with pytest.raises(HelmError):
        validate({"resources": {"limits": {"memory": ""}}})


def test_the_container_has_no_privileges(manifests):
    context = container(manifests)["securityContext"]
    assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
    assert context["capabilities"]["drop"] == ["ALL"]


def test_values_that_do_not_fit_the_schema_are_refused():
    with pytest.raises(HelmError):
        validate({"gpu": {"count": -1}})


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
    def protocol(values):
        return next(port["appProtocol"] for port in render(values)["Service"]["spec"]["ports"] if port["name"] == "grpc")

    assert (protocol(INSECURE), protocol(VALUES["protected"])) == ("kubernetes.io/h2c", "https")
    assert "--server http://" in notes(INSECURE) and "--server https://" in notes(VALUES["protected"])


@pytest.mark.parametrize("values", [{"tls": {"clientCertificates": "never"}}, {"tls": {"secret": "a"}},
                                    {"auth": {"insecure": "yes"}}, {"auth": {"principals": "a"}}])
def test_misspelt_security_values_are_refused(values):
    with pytest.raises(HelmError):
        validate(values)


def objects_of_schema(schema, path=""):
    """The objects that list their properties."""
    if "properties" in schema and "additionalProperties" in schema or path == "":
        yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from objects_of_schema(inner, f"{path}.{name}")
    yield from objects_of_schema(schema["items"], f"{path}[]") if "items" in schema else ()


def test_the_schema_is_closed_at_every_level_that_lists_properties():
    schema = json.loads((CHART / "values.schema.json").read_text())
    found = list(objects_of_schema(schema)) + list(schema["definitions"].items())
    assert len(found) > 20
    assert [] == [path for path, inner in found if "properties" in inner and inner["additionalProperties"] is not False]


MISSPELT = [
    {"replicas": 3},
    {"extraVolume": []},
    {"image": {"tags": "1"}},
    {"service": {"typ": "NodePort"}},
    {"persistence": {"enable": True}},
    {"serviceAccount": {"annotation": {}}},
    {"probes": {"startup": {"periodSecond": 1}}},
    {"probes": {"startups": {}}},
    {"resources": {"limit": {"memory": "1Gi"}}},
    {"resources": {"limits": {"memories": "1Gi"}}},
    {"tolerations": [{"keys": "a"}]},
    {"env": [{"name": "A", "val": "b"}]},
    {"extraVolumeMounts": [{"name": "a", "mountpath": "/a"}]},
    {"config": {"sever": {}}},
    {"config": {"server": {"lsten": "0.0.0.0:7433"}}},
    {"config": {"lanes": {"embed": {"max_waits": "1ms"}}}},
    {"config": {"lanes": {"embedding": {}}}},
    {"config": {"models": {"hub": {"caches": "/a"}}}},
    {"config": {"auth": {"insecure": "yes"}}},
    {"config": {"server": {"max_streams": 1.5}}},
]


@pytest.mark.parametrize("values", MISSPELT, ids=str)
def test_a_misspelt_value_is_refused_at_every_level(values):
    with pytest.raises(HelmError):
        validate(INSECURE | values)


@pytest.mark.parametrize("values", [*VALUES.values(), {"global": {"region": "a"}}, {"config": {"sandbox": {"processes": 2}}},
                                    {"config": {"server": {"reflection": True}}}, {"config": {"lanes": {"embed": {"max_wait": "1ms"}}}},
                                    {"resources": {"limits": {"hugepages-2Mi": "64Mi"}}}], ids=str)
def test_valid_values_fit_the_schema(values):
    validate(INSECURE | values)


def test_the_settings_in_the_schema_are_those_of_the_daemon():
    done = subprocess.run([sys.executable, ROOT / "helm/generate_schema.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def leaves(settings, prefix=""):
    for name, value in settings.items():
        yield from leaves(value, f"{prefix}{name}.") if isinstance(value, dict) else [f"{prefix}{name}"]


def test_the_settings_of_the_image_and_of_the_chart_exist(manifests):
    known = set(leaves(DEFAULTS))
    found = set(leaves(IMAGE)) | set(leaves(settings(manifests)))
    assert len(found) >= 5 and found <= known


def test_the_image_sets_nothing_that_would_override_the_settings_of_the_chart():
    instructions = re.sub(r"^#.*$", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    variables = [line for line in instructions.splitlines() if line.startswith("ENV")]
    assert variables and not any("ACCELERD" in line for line in variables)
    # The chart's file replaces the image's.
    assert instructions.count("COPY deploy/image.toml /etc/accelerd/config.toml") == 2
    (argument,) = [text for text in container(render(INSECURE))["args"] if text.endswith(".toml")]
    assert argument == "/etc/accelerd/config.toml"


def test_addresses_of_the_values_are_those_that_the_pod_uses():
    server = {"listen": "0.0.0.0:1111", "admin_listen": "[::]:2222", "health_listen": "0.0.0.0:3333"}
    manifests = render(INSECURE | {"config": {"server": server, "http": {"listen": "0.0.0.0:4444"}}})
    assert settings(manifests)["server"] == server
    assert [port["containerPort"] for port in container(manifests)["ports"]] == [1111, 4444, 2222, 3333]
    assert container(manifests)["livenessProbe"]["grpc"]["port"] == 3333
    assert "env" not in container(manifests)


def test_the_service_has_the_http_port_unless_it_is_disabled():
    def names(listen):
        manifests = render(INSECURE | {"config": {"http": {"listen": listen}}})
        ports = manifests["Service"]["spec"]["ports"], container(manifests)["ports"]
        return tuple([port["name"] for port in of_kind] for of_kind in ports)

    assert names("0.0.0.0:7436") == (["grpc", "http", "metrics"], ["grpc", "http", "metrics", "health"])
    assert names("") == (["grpc", "metrics"], ["grpc", "metrics", "health"])
    with pytest.raises(HelmError, match="listen"):
        names("auto")


def test_services_add_no_variables_that_look_like_settings(manifests):
    assert pod(manifests)["spec"]["enableServiceLinks"] is False


def test_a_health_port_that_no_probe_reaches_is_refused():
    with pytest.raises(HelmError, match="config.server.health_listen is 127.0.0.1:7435, where the kubelet"):
        render(INSECURE | {"config": {"server": {"health_listen": "127.0.0.1:7435"}}})


@pytest.mark.parametrize(("variable", "value"), [("SERVER__LISTEN", "server.listen"), ("STORE__DATA_DIR", "store.data_dir"),
                                                 ("HTTP__LISTEN", "http.listen"),
                                                 ("CUDA__KERNEL_CACHE", "cuda.kernel_cache")])
def test_a_variable_that_would_override_what_the_pod_is_built_of_is_refused(variable, value):
    with pytest.raises(HelmError, match=f"set config.{value} instead of the variable"):
        render(INSECURE | {"env": [{"name": f"ACCELERD__{variable}", "value": "a"}]})


def mounts(manifests):
    return {mount["mountPath"]: mount["name"] for mount in container(manifests)["volumeMounts"]}


def volumes(manifests):
    return {volume["name"]: volume for volume in pod(manifests)["spec"]["volumes"]}


def test_replicas_with_persistence_have_a_claim_each():
    manifests = render(INSECURE | {"replicaCount": 3, "persistence": {"enabled": True, "size": "5Gi", "storageClassName": "fast"}})
    assert "PersistentVolumeClaim" not in manifests and "Deployment" not in manifests
    spec = manifests["StatefulSet"]["spec"]
    (claim,) = spec["volumeClaimTemplates"]
    assert (spec["replicas"], claim["metadata"]["name"]) == (3, "data")
    assert claim["spec"] == {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "5Gi"}}}
    assert mounts(manifests)["/var/lib/accelerd"] == "data" and "data" not in volumes(manifests)
    headless = manifests["HeadlessService"]
    assert spec["serviceName"] == headless["metadata"]["name"] == "test-accelerd-pods"
    assert headless["spec"]["selector"].items() <= spec["template"]["metadata"]["labels"].items()


def test_without_persistence_each_pod_has_a_volume_that_ends_with_it():
    manifests = render(INSECURE | {"replicaCount": 3})
    assert volumes(manifests)["data"]["emptyDir"] == {} and "StatefulSet" not in manifests
    assert "has collections of its own" in notes(INSECURE | {"replicaCount": 3})


def test_the_names_of_pods_fit_into_their_labels():
    manifests = render(INSECURE | {"fullnameOverride": "a" * 63, "persistence": {"enabled": True}})
    # The label of a pod's revision is the name with a hash of ten characters and a hyphen.
    assert len(manifests["StatefulSet"]["metadata"]["name"]) + 11 <= 63
    assert len(manifests["HeadlessService"]["metadata"]["name"]) <= 63


def test_the_folder_of_the_data_is_a_volume():
    moved = {"config": {"store": {"data_dir": "/data/"}}}
    assert mounts(render(INSECURE | moved))["/data"] == "data"
    in_memory = {"config": {"store": {"data_dir": ""}}}
    assert "data" not in volumes(render(INSECURE | in_memory)) and "data" not in mounts(render(INSECURE | in_memory)).values()
    with pytest.raises(HelmError, match="persistence.enabled needs config.store.data_dir"):
        render(INSECURE | in_memory | {"persistence": {"enabled": True}})


def test_kernels_of_run_time_have_a_volume_and_those_of_the_image_stay_visible():
    manifests = render(VALUES["gpu"])
    cache = settings(manifests)["cuda"]["kernel_cache"]
    assert cache == IMAGE["cuda"]["kernel_cache"]
    assert mounts(manifests)[f"{cache}/jit"] == "kernels" and "emptyDir" in volumes(manifests)["kernels"]
    assert cache not in mounts(manifests)
    assert f"{cache}/jit" in (ROOT / "Dockerfile").read_text()
    assert "kernels" not in volumes(render(VALUES["cpu"]))


FOLDERS = [
    ({"cuda": {"kernel_cache": "/kernels"}}, "config.cuda.kernel_cache is /kernels"),
    ({"models": {"hub": {"cache": "/models"}}}, "config.models.hub.cache is /models"),
    ({"server": {"uds_path": "/run/accelerd.sock"}}, "config.server.uds_path is /run"),
    ({"store": {"snapshot_url": "file:///snapshots"}}, "a folder of snapshots in config.store is /snapshots"),
    ({"store": {"snapshot_folders": ["s3://a", "file:///var/library"]}}, "is /var/library"),
]


@pytest.mark.parametrize(("config", "message"), FOLDERS, ids=str)
def test_a_folder_that_is_written_on_the_read_only_root_is_refused(config, message):
    with pytest.raises(HelmError, match=f"{message}, which is on the read-only root"):
        render(INSECURE | {"config": config})
    if "store" not in config:
        render(INSECURE | {"config": config, "securityContext": {"readOnlyRootFilesystem": False}})


@pytest.mark.parametrize("folder", ["/var/lib/accelerd/a", "/tmp/a", "/extra", "/extra/b"])
def test_a_folder_that_is_written_on_a_volume_is_accepted(folder):
    extra = {"extraVolumes": [{"name": "extra", "emptyDir": {}}], "extraVolumeMounts": [{"name": "extra", "mountPath": "/extra"}]}
    config = {"cuda": {"kernel_cache": folder}, "models": {"hub": {"cache": folder}}, "store": {"snapshot_url": f"file://{folder}"}}
    assert settings(render(INSECURE | extra | {"config": config}))["models"]["hub"]["cache"] == folder


def test_models_are_mounted():
    volume = {"name": "models", "persistentVolumeClaim": {"claimName": "models", "readOnly": True}}
    mount = {"name": "models", "mountPath": "/models", "readOnly": True}
    models = {"folders": ["/models"], "preload": [{"name": "minilm", "path": "/models/minilm", "aliases": ["default"]}]}
    values = {"extraVolumes": [volume], "extraVolumeMounts": [mount], "config": {"models": models}}
    for more in ({}, {"persistence": {"enabled": True}}):
        validate(INSECURE | values | more)
        manifests = render(INSECURE | values | more)
        assert volume in pod(manifests)["spec"]["volumes"] and mount in container(manifests)["volumeMounts"]
        assert settings(manifests)["models"]["preload"][0]["path"] == "/models/minilm"
        kubernetes_validate.validate(manifests["StatefulSet" if more else "Deployment"], NEWEST, strict=True)
    read_only = values | {"config": {"models": {"hub": {"cache": "/models"}}}}
    with pytest.raises(HelmError, match="config.models.hub.cache is /models"):
        render(INSECURE | read_only)
