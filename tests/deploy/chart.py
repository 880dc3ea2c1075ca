"""What the tests of the chart share: values, and what the chart makes of them."""

import functools
import json
import tomllib
from pathlib import Path

import yaml
from helm_python.chart import Chart

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "accelerd"
IMAGE = tomllib.loads((ROOT / "deploy/image.toml").read_text())
DEFAULTS = tomllib.loads((ROOT / "server/config/default.toml").read_text())
INSECURE = {"auth": {"insecure": True}}
PROFILES = ("cpu", "gpu", "mig", "time-slicing", "durable")


def read(path):
    return yaml.safe_load((CHART / path).read_text())


def merged(*values):
    """Later values override earlier ones, as files given to Helm do."""
    result = {}
    for given in values:
        for name, value in given.items():
            both = isinstance(value, dict) and isinstance(result.get(name), dict)
            result[name] = merged(result[name], value) if both else value
    return result


def profile(name):
    return merged(INSECURE, read(f"values-{name}.yaml"))


VALUES = {
    "default": INSECURE,
    **{name: profile(name) for name in PROFILES},
    "protected": read("ci/protected-values.yaml"),
    "shared-gpu": read("ci/shared-gpu-values.yaml"),
}


@functools.cache
def loaded(path):
    return Chart.load(path)


def files(values, chart=CHART):
    """Templates with what they render."""
    return rendered(json.dumps(values), chart)


@functools.cache
def rendered(values, chart):
    chart = loaded(chart)
    merged_values = chart.merge_values(json.loads(values))
    return chart.render(merged_values, name="test", namespace="default")


def documents(values, chart=CHART):
    texts = [text for path, text in files(values, chart).items() if path.endswith(".yaml")]
    return [document for text in texts for document in yaml.load_all(text, yaml.CSafeLoader) if document]


def render(values, chart=CHART):
    return {kind(document): document for document in documents(values, chart)}


def kind(document):
    return "HeadlessService" if document.get("spec", {}).get("clusterIP") == "None" else document["kind"]


def validate(values):
    loaded(CHART).validate_schema(loaded(CHART).merge_values(values))


def workload(manifests):
    (found,) = (manifests[kind] for kind in ("Deployment", "StatefulSet") if kind in manifests)
    return found


def pod(manifests):
    return workload(manifests)["spec"]["template"]


def container(manifests):
    return pod(manifests)["spec"]["containers"][0]


def settings(manifests):
    return tomllib.loads(manifests["ConfigMap"]["data"]["config.toml"])


def notes(values):
    return next(text for path, text in files(values).items() if path.endswith("NOTES.txt"))


def mounts(manifests):
    return {mount["mountPath"]: mount["name"] for mount in container(manifests)["volumeMounts"]}


def volumes(manifests):
    return {volume["name"]: volume for volume in pod(manifests)["spec"]["volumes"]}


def variables(manifests):
    return {variable["name"]: variable for variable in container(manifests).get("env", [])}
