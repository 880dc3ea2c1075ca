"""Pods of the chart: images, resources, probes, memory, and how they end."""

import re

import pytest
from chart import CHART, INSECURE, VALUES, container, merged, pod, render, settings, validate, variables, workload
from chart_options import OPTIONS
from helm_python.errors import HelmError


@pytest.fixture(params=VALUES, name="manifests")
def rendered(request):
    return render(VALUES[request.param])


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


def grace(**values):
    return pod(render(INSECURE | values))["spec"]["terminationGracePeriodSeconds"]


def test_the_grace_period_is_longer_than_the_drain(manifests):
    drain = {name: int(value.removesuffix("s").replace("1m", "60")) for name, value in settings(manifests)["drain"].items()}
    assert pod(manifests)["spec"]["terminationGracePeriodSeconds"] == sum(drain.values()) + 10


DURATIONS = {"1500ms": 2, "1m 30s": 90, "2h": 7200, "1day": 86400, "5sec": 5, "0s": 0, "3minutes": 180}


@pytest.mark.parametrize(("duration", "seconds"), DURATIONS.items())
def test_the_grace_period_follows_the_drain_and_the_hook(duration, seconds):
    config = {"drain": {"timeout": duration, "endpoint_delay": "1s"}}
    assert grace(config=config) == seconds + 1 + 10
    assert grace(config=config, preStopSeconds=7) == seconds + 7 + 1 + 10
    assert grace(config=config, terminationGracePeriodSeconds=seconds + 2) == seconds + 2
    with pytest.raises(HelmError, match=f"terminationGracePeriodSeconds is {seconds + 1}, in which the daemon is killed"):
        grace(config=config, terminationGracePeriodSeconds=seconds + 1)


def test_a_duration_of_an_unknown_unit_is_refused():
    with pytest.raises(HelmError, match="expected a duration with a unit"):
        grace(config={"drain": {"timeout": "3fortnights"}})


def test_a_hook_delays_the_end_only_if_it_is_asked_for():
    assert "lifecycle" not in container(render(INSECURE))
    hook = container(render(INSECURE | {"preStopSeconds": 15}))["lifecycle"]["preStop"]
    assert hook == {"exec": {"command": ["sleep", "15"]}}


UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "B": 1, "": 1}


def size(text):
    number, unit = re.fullmatch(r"([0-9]+)([A-Za-z]*)", str(text)).groups()
    return int(number) * UNITS[unit]


def unfit_memory(manifests):
    """Settings that leave too little of the pod's limit for what the daemon's ledger does not count."""
    limit = size(container(manifests)["resources"]["limits"]["memory"])
    given = {key: size(value) for key, value in settings(manifests).get("memory", {}).items() if value != "auto"}
    fits = given.get("host_limit", 0) <= limit * 0.8 and given.get("reserve", limit) >= limit * 0.2
    return {} if fits else given


def test_the_ledger_of_memory_fits_into_the_limit(manifests):
    assert unfit_memory(manifests) == {}


@pytest.mark.parametrize("memory", [{"host_limit": "15GiB"}, {"reserve": "1GiB"}])
def test_a_ledger_that_does_not_fit_would_be_noticed(memory):
    assert unfit_memory(render(INSECURE | {"config": {"memory": memory}})) != {}


def test_a_pod_without_a_limit_of_memory_is_refused():
    with pytest.raises(HelmError):
        validate({"resources": {"limits": {"memory": ""}}})


@pytest.mark.parametrize("option", ["models that are downloaded", "calls of the test with TLS"])
def test_no_container_has_privileges(option):
    manifests = render(merged(INSECURE, OPTIONS[option]))
    for spec in (pod(manifests)["spec"], manifests["Pod"]["spec"]):
        assert spec["securityContext"]["runAsNonRoot"] and not spec["automountServiceAccountToken"]
        for one in spec["containers"] + spec.get("initContainers", []):
            context = one["securityContext"]
            assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
            assert context["capabilities"]["drop"] == ["ALL"] and one["resources"]["limits"]["memory"]


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
        render(INSECURE | {"extraEnv": [{"name": f"ACCELERD__{variable}", "value": "a"}]})


def test_every_setting_that_templates_read_is_protected_from_variables():
    checks = (CHART / "templates/_checks.tpl").read_text()
    for path in CHART.rglob("templates/**/*"):
        text = path.read_text() if path.is_file() else ""
        read = {".".join(parts) for parts in re.findall(r"Values\.config\.(\w+)\.(\w+)", text)}
        read |= {dug.replace('" "', ".") for dug in re.findall(r'dig "((?:\w+" ")*\w+)" (?:""|list|false|"https)[^\n]*config', text)}
        assert [name for name in read if "." in name and f'"{name}"' not in checks] == [], path


def test_the_image_is_that_of_the_digest_or_the_tag():
    image = {"repository": "registry.example.com/accelerd", "tag": "1.2.3"}
    digest = f"sha256:{'a' * 64}"
    assert container(render(INSECURE | {"image": image}))["image"] == "registry.example.com/accelerd:1.2.3"
    assert container(render(INSECURE | {"image": image | {"digest": digest}}))["image"] == f"registry.example.com/accelerd@{digest}"


def test_a_constraint_of_topology_selects_the_pods_of_the_release():
    spec = pod(render(merged(INSECURE, OPTIONS["scheduling"])))["spec"]
    chosen, given = (constraint["labelSelector"]["matchLabels"] for constraint in spec["topologySpreadConstraints"])
    assert chosen == {"app.kubernetes.io/name": "accelerd", "app.kubernetes.io/instance": "test"} and given == {"a": "b"}
    assert (spec["priorityClassName"], spec["runtimeClassName"]) == ("serving", "nvidia")


def test_labels_of_the_values_are_on_objects_and_pods_but_select_nothing():
    manifests = render(merged(INSECURE, OPTIONS["names and labels"]))
    assert all(manifest["metadata"]["labels"]["team"] == "search" for manifest in manifests.values())
    labels = pod(manifests)["metadata"]["labels"]
    assert (labels["team"], labels["tier"], labels["app.kubernetes.io/name"]) == ("search", "gpu", "engine")
    assert set(workload(manifests)["spec"]["selector"]["matchLabels"]) == {"app.kubernetes.io/name", "app.kubernetes.io/instance"}
    with pytest.raises(HelmError, match="app.kubernetes.io/name"):
        validate({"podLabels": {"app.kubernetes.io/name": "other"}})


def test_a_change_of_the_chart_alone_replaces_no_pod():
    assert "helm.sh/chart" not in pod(render(INSECURE))["metadata"]["labels"]


def test_a_gpu_is_not_asked_for_twice_in_an_update_and_a_cpu_is():
    def surge(values):
        return render(values)["Deployment"]["spec"]["strategy"]["rollingUpdate"]["maxSurge"]

    assert (surge(INSECURE), surge(VALUES["cpu"])) == (0, 1)
    recreated = render(merged(INSECURE, OPTIONS["replacement of all pods at once"]))["Deployment"]
    assert recreated["spec"]["strategy"] == {"type": "Recreate"}


def test_the_token_of_the_hub_comes_from_its_secret():
    manifests = render(merged(INSECURE, OPTIONS["cache of the hub"]))
    assert variables(manifests)["HF_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "hub", "key": "HF_TOKEN"}
    assert "env" not in container(render(INSECURE))
    with pytest.raises(HelmError, match="HF_TOKEN is in extraEnv, and hub.tokenSecretName"):
        render(INSECURE | {"hub": {"tokenSecretName": "hub"}, "extraEnv": [{"name": "HF_TOKEN", "value": "a"}]})


def test_pods_that_scale_are_counted_by_the_scaler():
    for name in ("autoscaling by CPU", "KEDA"):
        manifests = render(merged(INSECURE, OPTIONS[name]))
        scaler = manifests.get("HorizontalPodAutoscaler") or manifests["ScaledObject"]
        assert scaler["spec"]["scaleTargetRef"]["name"] == manifests["Deployment"]["metadata"]["name"]
        assert "replicas" not in manifests["Deployment"]["spec"]


def test_an_autoscaler_looks_at_the_metrics_of_the_values():
    def metrics(option):
        return [metric["type"] for metric in render(merged(INSECURE, OPTIONS[option]))["HorizontalPodAutoscaler"]["spec"]["metrics"]]

    assert (metrics("autoscaling by CPU"), metrics("autoscaling by a metric")) == (["Resource"], ["Pods"])


def test_keda_compares_the_wait_of_the_releases_pods_with_the_threshold():
    def trigger(**prometheus):
        return render(INSECURE | {"keda": {"enabled": True, "prometheus": prometheus}})["ScaledObject"]["spec"]["triggers"][0]

    given = trigger(threshold=0.25)
    assert (given["metricType"], given["metadata"]["threshold"]) == ("Value", "0.25")
    query = given["metadata"]["query"]
    (pattern,) = re.findall(r'namespace="default", pod=~"([^"]+)"', query)
    assert re.fullmatch(pattern, "test-accelerd-5d4f8c7b9-x2x7z") and not re.fullmatch(pattern, "test-accelerd-other-5d4f8c7b9-x2x7z")
    assert "accelerd_queue_wait_seconds_bucket" in query and query.endswith("or vector(0)")
    assert trigger(query="up")["metadata"]["query"] == "up"


SCALING = [
    ({"autoscaling": {"enabled": True}, "keda": {"enabled": True}}, "both set the number of pods"),
    ({"autoscaling": {"enabled": True}, "persistence": {"enabled": True}}, "do not fit persistence.enabled"),
    ({"keda": {"enabled": True}, "persistence": {"enabled": True}}, "do not fit persistence.enabled"),
    ({"autoscaling": {"enabled": True, "targetCPUUtilizationPercentage": 0}}, "needs autoscaling.targetCPUUtilizationPercentage"),
    ({"autoscaling": {"enabled": True, "minReplicas": 5}}, "autoscaling.minReplicas is 5, and autoscaling.maxReplicas 4"),
    ({"keda": {"enabled": True, "minReplicas": 5}}, "keda.minReplicas is 5"),
    ({"keda": {"minReplicas": 0}}, "minReplicas"),
]


@pytest.mark.parametrize(("values", "message"), SCALING, ids=str)
def test_scaling_that_would_lose_or_miss_pods_is_refused(values, message):
    with pytest.raises(HelmError, match=message):
        render(INSECURE | values)


def test_an_eviction_takes_one_pod_unless_the_values_say_otherwise():
    def budget(option):
        return render(merged(INSECURE, OPTIONS.get(option, {})))["PodDisruptionBudget"]["spec"]

    assert budget("")["maxUnavailable"] == 1 and "minAvailable" not in budget("")
    assert budget("disruption budget by percentage")["maxUnavailable"] == "25%"
    assert budget("disruption budget by minimum")["minAvailable"] == 2 and "maxUnavailable" not in budget("disruption budget by minimum")
    assert budget("")["selector"] == workload(render(INSECURE))["spec"]["selector"]
    assert "PodDisruptionBudget" not in render(INSECURE | {"podDisruptionBudget": {"enabled": False}})
