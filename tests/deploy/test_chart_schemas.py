"""Every option of the chart renders objects that Kubernetes 1.27 to 1.37, KEDA, the Gateway API and the Prometheus operator accept.

The schemas of the others come from their modules, which stay in target/crds between runs.
"""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import referencing
import yaml
from chart import CHART, INSECURE, PROFILES, ROOT, VALUES, documents, merged, profile
from chart_options import OPTIONS
from helm_python.chart import lint
from kubernetes_validate.utils import schema_contents

VERSIONS = [f"1.{minor}" for minor in range(27, 38)]
WORK = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute() / "crds"
# Module, version, hash of its content, folder of its definitions.
MODULES = [
    ("github.com/kedacore/keda/v2", "v2.21.0", "h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps=", "config/crd/bases"),
    ("sigs.k8s.io/gateway-api", "v1.7.0", "h1:duVnm7nO6oXfMMUWfcDoBph47CYR/ME3NGxccOVglaY=", "config/crd/standard"),
    (
        "github.com/prometheus-operator/prometheus-operator",
        "v0.85.0",
        "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
        "example/prometheus-operator-crd",
    ),
]
CUSTOM = {"ScaledObject", "GRPCRoute", "HTTPRoute", "BackendTLSPolicy", "ServiceMonitor", "PodMonitor", "PrometheusRule"}
RULES = """
groups:
  - name: accelerd
    rules:
      - alert: QueueWaits
        expr: histogram_quantile(0.95, sum by (le) (rate(accelerd_queue_wait_seconds_bucket[5m]))) > 1
        for: 5m
        labels: {severity: warning}
        annotations: {summary: "Calls wait {{ $value }} s on {{ $labels.pod }}."}
      - alert: Refusals
        expr: rate(accelerd_admission_refused_total[5m]) > 0
      - record: accelerd:queue_wait_seconds:rate5m
        expr: rate(accelerd_queue_wait_seconds_sum[5m])
"""
COMBINED = {
    "cpu, durable": merged(profile("cpu"), profile("durable")),
    "mig, durable": merged(profile("mig"), profile("durable")),
}


@pytest.fixture(scope="session", name="chart")
def chart_with_content(tmp_path_factory):
    """The chart with one file of alerts and one dashboard."""
    chart = tmp_path_factory.mktemp("chart") / "accelerd"
    shutil.copytree(CHART, chart, ignore=shutil.ignore_patterns("alerts", "dashboards"))
    for name, text in {"alerts/queues.yaml": RULES, "dashboards/Over_view.json": '{"title": "{{ lane }}"}'}.items():
        (chart / name).parent.mkdir()
        (chart / name).write_text(text)
    return chart


@functools.cache
def validator(kind, api_version, version):
    """Validates as a strict API server of the version does."""
    name = "-".join([kind.lower(), *api_version.replace(".k8s.io", "").split("/")])
    folder = f"kubernetes-json-schema/v{version}.0-local-strict"
    schema = schema_contents(f"{folder}/{name}.json", version)
    registry = referencing.Resource.from_contents(definitions(folder, version)) @ referencing.Registry()
    return jsonschema.Draft202012Validator(schema, registry=registry)


@functools.cache
def definitions(folder, version):
    return schema_contents(f"{folder}/_definitions.json", version)


@pytest.fixture(scope="session")
def crds():
    """Validators by kind and version of the API."""
    found = {}
    for module, version, content, folder in MODULES:
        for path in (downloaded(module, version, content) / folder).glob("*.yaml"):
            text = path.read_text()
            if not set(re.findall(r"^    kind: (\w+)$", text, re.MULTILINE)) & CUSTOM:
                continue
            definition = yaml.load(text, yaml.CSafeLoader)
            for served in definition["spec"]["versions"]:
                key = definition["spec"]["names"]["kind"], f"{definition['spec']['group']}/{served['name']}"
                found[key] = jsonschema.Draft202012Validator(strict(served["schema"]["openAPIV3Schema"]))
    assert {kind for kind, _ in found} == CUSTOM
    return found


def downloaded(module, version, content):
    environment = {**os.environ, "GOPATH": str(WORK), "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local"}
    WORK.mkdir(parents=True, exist_ok=True)
    command = [Path(sys.executable).parent / "go", "mod", "download", "-json", f"{module}@{version}"]
    done = subprocess.run(command, env=environment, cwd=WORK, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert answer["Sum"] == content
    return Path(answer["Dir"])


def strict(schema):
    """A schema of OpenAPI as one of JSON, which refuses fields that the server would drop."""
    if isinstance(schema, list):
        return [strict(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    result = {name: strict(inner) for name, inner in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        result.setdefault("additionalProperties", False)
    if schema.get("nullable") is True:
        result["type"] = [schema["type"], "null"]
    return result


CHECKED = set()


def check(document, crds):
    text = json.dumps(document, sort_keys=True)
    if text in CHECKED:
        return
    key = document["kind"], document["apiVersion"]
    validators = [crds[key]] if key in crds else [validator(*key, version) for version in VERSIONS]
    for one in validators:
        one.validate(document)
    CHECKED.add(text)


@pytest.mark.parametrize("values", [*VALUES.values(), *COMBINED.values()], ids=[*VALUES, *COMBINED])
def test_profiles_are_valid_and_lint_without_warnings(values, crds, chart):
    found = documents(values, chart)
    for document in found:
        check(document, crds)
    kinds = {document["kind"] for document in found}
    assert {"Service", "ConfigMap", "ServiceAccount", "PodDisruptionBudget", "Pod"} <= kinds
    assert len({"Deployment", "StatefulSet"} & kinds) == 1
    report = lint(CHART, values, strict=True)
    assert report["errors"] in (None, []), report
    assert all(message["severity"] <= 1 for message in report["messages"] or []), report


@pytest.mark.parametrize("option", OPTIONS)
def test_options_are_valid(option, crds, chart):
    for document in documents(merged(INSECURE, OPTIONS[option]), chart):
        check(document, crds)


def test_every_kind_of_object_is_rendered_by_an_option(chart):
    kinds = {document["kind"] for values in OPTIONS.values() for document in documents(merged(INSECURE, values), chart)}
    assert CUSTOM | {"StatefulSet", "HorizontalPodAutoscaler", "NetworkPolicy", "Ingress"} <= kinds
    assert set(VALUES) >= set(PROFILES) == {path.stem.removeprefix("values-") for path in CHART.glob("values-*.yaml")}


def test_every_option_changes_what_is_rendered(chart):
    default = documents(INSECURE, chart)
    assert [name for name, values in OPTIONS.items() if documents(merged(INSECURE, values), chart) == default] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_field_that_does_not_exist_would_be_noticed(version):
    (service,) = [one for one in documents(INSECURE) if one["kind"] == "Service" and one["spec"].get("type")]
    service["spec"]["typ"] = "ClusterIP"
    with pytest.raises(jsonschema.ValidationError):
        validator("Service", "v1", version).validate(service)
    assert version in {kubernetes_validate.utils.major_minor(one) for one in kubernetes_validate.utils.all_versions()}


@pytest.mark.parametrize("option", ["KEDA", "routes of a gateway", "service monitor", "pod monitor", "alerts"])
def test_a_field_that_a_custom_resource_lacks_would_be_noticed(option, crds, chart):
    found = [one for one in documents(merged(INSECURE, OPTIONS[option]), chart) if one["kind"] in CUSTOM]
    assert found
    for document in found:
        document["spec"]["misspelt"] = 1
        with pytest.raises(jsonschema.ValidationError):
            check(document, crds)


def test_alerts_keep_their_templates_and_get_labels(chart):
    values = merged(INSECURE, OPTIONS["alerts"])
    (rule,) = [one for one in documents(values, chart) if one["kind"] == "PrometheusRule"]
    (group,) = rule["spec"]["groups"]
    expected = yaml.safe_load(RULES)["groups"][0]
    expected["rules"][0]["labels"]["team"] = "search"
    expected["rules"][1]["labels"] = {"team": "search"}
    assert group == expected
    (rule,) = [one for one in documents(merged(values, disabled("Refusals")), chart) if one["kind"] == "PrometheusRule"]
    assert [one.get("alert") for one in rule["spec"]["groups"][0]["rules"]] == ["QueueWaits", None]
    with pytest.raises(Exception, match="alerts that do not exist: Refusal"):
        documents(merged(values, disabled("Refusal")), chart)


def disabled(name):
    return {"metrics": {"prometheusRule": {"disabled": [name]}}}


def test_dashboards_are_for_the_sidecar_of_grafana(chart):
    (config,) = [one for one in documents(merged(INSECURE, OPTIONS["dashboards"]), chart) if one["metadata"]["name"].endswith("over-view")]
    assert config["data"] == {"Over_view.json": '{"title": "{{ lane }}"}'}
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1" and config["metadata"]["annotations"] == {"grafana_folder": "Search"}


def test_the_alerts_and_dashboards_of_the_chart_are_valid(crds):
    """Those of the chart itself, of which there may be none."""
    values = merged(INSECURE, OPTIONS["alerts"], OPTIONS["dashboards"])
    found = [one for one in documents(values) if one not in documents(INSECURE)]
    for document in found:
        check(document, crds)
        for text in document.get("data", {}).values():
            assert json.loads(text)["title"] and len(text) < 2**20
    assert len(found) == len(list(CHART.glob("dashboards/*.json"))) + bool(list(CHART.glob("alerts/*.yaml")))


def test_without_alerts_and_dashboards_nothing_is_rendered(tmp_path):
    chart = tmp_path / "accelerd"
    shutil.copytree(CHART, chart, ignore=shutil.ignore_patterns("alerts", "dashboards"))
    values = merged(INSECURE, OPTIONS["alerts"], OPTIONS["dashboards"])
    assert documents(values, chart) == documents(INSECURE, chart)


def test_a_file_of_alerts_that_is_none_is_refused(chart, tmp_path):
    broken = tmp_path / "accelerd"
    shutil.copytree(chart, broken)
    (broken / "alerts/queues.yaml").write_text("rules: []")
    with pytest.raises(Exception, match="alerts/queues.yaml is not a file of rules of Prometheus: it has no groups"):
        documents(merged(INSECURE, OPTIONS["alerts"]), broken)
