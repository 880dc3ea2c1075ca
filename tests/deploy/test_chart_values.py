"""The schema of the chart refuses misspelt values, and its documents name every value."""

import json
import re
import subprocess
import sys

import pytest
from chart import CHART, INSECURE, ROOT, VALUES, validate
from helm_python.errors import HelmError

sys.path.insert(0, str(ROOT / "helm"))

from values_comments import commented  # noqa: E402


def test_values_that_do_not_fit_the_schema_are_refused():
    with pytest.raises(HelmError):
        validate({"gpu": {"count": -1}})


@pytest.mark.parametrize("values", [{"tls": {"clientCertificates": "never"}}, {"tls": {"secret": "a"}},
                                    {"auth": {"insecure": "yes"}}, {"auth": {"principals": "a"}}])
def test_misspelt_security_values_are_refused(values):
    with pytest.raises(HelmError):
        validate(values)


def objects_of_schema(schema, path=""):
    """The objects that list their properties."""
    if ("properties" in schema and "additionalProperties" in schema) or path == "":
        yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from objects_of_schema(inner, f"{path}.{name}")
    yield from objects_of_schema(schema["items"], f"{path}[]") if "items" in schema else ()


def test_the_schema_is_closed_at_every_level_that_lists_properties():
    schema = json.loads((CHART / "values.schema.json").read_text())
    found = list(objects_of_schema(schema)) + list(schema["definitions"].items())
    assert len(found) > 20
    assert [] == [path for path, inner in found if "properties" in inner and inner["additionalProperties"] is not False]


# Parts of objects of Kubernetes and others, which their servers check.
OPEN = {
    ".global", ".extraVolumes[]", ".extraInitContainers[]", ".extraContainers[]", ".autoscaling.metrics[]", ".keda.triggers[]",
    ".grpcRoute.filters[]", ".httpRoute.filters[]", "volume.ephemeral.volumeClaimTemplate",
    *(f"{kind}.{when}DuringSchedulingIgnoredDuringExecution{items}"
      for kind in ("nodeAffinity", "terms") for when, items in {"required": "" if kind == "nodeAffinity" else "[]", "preferred": "[]"}.items()),
}


def open_objects(schema, path=""):
    if schema.get("type") == "object" and "additionalProperties" not in schema:
        yield path
    for name, inner in schema.get("properties", {}).items():
        yield from open_objects(inner, f"{path}.{name}")
    for inner in [schema["items"]] if "items" in schema else []:
        yield from open_objects(inner, f"{path}[]")


def test_the_schema_is_open_only_where_others_check():
    schema = json.loads((CHART / "values.schema.json").read_text())
    found = [*open_objects(schema), *(path for name, inner in schema["definitions"].items() for path in open_objects(inner, name))]
    assert set(found) == OPEN


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
    {"env": [{"name": "A", "value": "b"}]},
    {"extraEnv": [{"name": "A", "val": "b"}]},
    {"envFrom": [{"secretRef": {"names": "a"}}]},
    {"models": {"volume": {"persistentVolumeClaim": {"name": "a"}}}},
    {"models": {"volume": {"emptyDir": {}, "hostPath": {"path": "/a"}}}},
    {"models": {"download": {"files": [{"url": "https://a/b"}]}}},
    {"models": {"download": {"files": [{"url": "https://a/b", "path": "/etc/b"}]}}},
    {"models": {"download": {"files": [{"url": "https://a/b", "path": "b", "sha256": "c"}]}}},
    {"kernelCache": {"volumes": {}}},
    {"hub": {"token": "a"}},
    {"autoscaling": {"enabled": True, "maxReplica": 2}},
    {"autoscaling": {"behavior": {"scaleDown": {"stabilizationWindow": 1}}}},
    {"keda": {"prometheus": {"server": "a"}}},
    {"podDisruptionBudget": {"maxUnavailable": "half"}},
    {"networkPolicy": {"callers": [{"podSelectors": {}}]}},
    {"networkPolicy": {"egressRules": [{"from": []}]}},
    {"metrics": {"serviceMonitor": {"enable": True}}},
    {"metrics": {"podMonitor": {"interval": "15 seconds"}}},
    {"metrics": {"prometheusRule": {"enabled": "yes"}}},
    {"metrics": {"dashboards": {"label": {}}}},
    {"grpcRoute": {"parentRefs": [{"gateway": "a"}]}},
    {"httpRoute": {"timeouts": {"requests": "1s"}}},
    {"httpRoute": {"hostnames": ["https://example.com"]}},
    {"ingress": {"enabled": True}},
    {"ingress": {"http": {"host": "a"}}},
    {"backendTLS": {"caConfigMap": "a"}},
    {"affinity": {"nodeAffinities": {}}},
    {"affinity": {"podAffinity": {"required": []}}},
    {"topologySpreadConstraints": [{"maxSkews": 1}]},
    {"strategy": {"rollingUpdate": {"maxSurges": 1}}},
    {"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}},
    {"podSecurityContext": {"runAsNonroot": True}},
    {"securityContext": {"capabilities": {"dropped": []}}},
    {"tests": {"caSecret": "a"}},
    {"commonLabels": {"app.kubernetes.io/instance": "a"}},
    {"image": {"digest": "sha256:abc"}},
    {"extraVolumeMounts": [{"name": "a", "mountpath": "/a"}]},
    {"config": {"sever": {}}},
    {"config": {"server": {"lsten": "0.0.0.0:7433"}}},
    {"config": {"lanes": {"embed": {"max_waits": "1ms"}}}},
    {"config": {"lanes": {"embedding": {}}}},
    {"config": {"models": {"hub": {"caches": "/a"}}}},
    {"config": {"auth": {"insecure": "yes"}}},
    {"config": {"server": {"max_streams": 1.5}}},
    {"config": {"lanes": {"embed": {"max_wait": "1"}}}},
    {"config": {"limits": {"max_text_bytes": "64"}}},
    {"config": {"models": {"folders": [1]}}},
    {"config": {"models": {"preload": [{"name": "a", "path": "b", "alias": []}]}}},
    {"config": {"backend": {"ordinals": ["a"]}}},
    {"extraEnv": [{"name": "A", "valueFrom": {"fieldReference": {"fieldPath": "a"}}}]},
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


@pytest.mark.parametrize("generator", ["generate_schema", "generate_readme"])
def test_schema_and_readme_are_those_of_the_settings_and_values(generator):
    done = subprocess.run([sys.executable, ROOT / f"helm/{generator}.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_value_has_a_row_in_the_readme_or_is_part_of_one():
    rows = re.findall(r"^\| `([\w.]+)` \| `", (CHART / "README.md").read_text(), re.MULTILINE)
    assert len(rows) == len(set(rows)) > 100
    single = [value for value in commented() if not isinstance(value.default, dict) or not value.default]
    parts = {value.name: {".".join(value.path[:depth]) for depth in range(1, len(value.path) + 1)} for value in single}
    assert [name for name, around in parts.items() if not around & set(rows)] == []


def test_the_values_of_the_schema_have_defaults():
    schema = json.loads((CHART / "values.schema.json").read_text())
    known = {value.path for value in commented()}
    missing = [path for path in properties(schema) if path not in known]
    assert [path for path in missing if path[0] not in ("global", "config", *FREE)] == []


# Parts of a pod, whose fields have the defaults of Kubernetes.
FREE = ("affinity", "resources", "probes", "strategy", "updateStrategy", "podSecurityContext", "securityContext")


def properties(schema, path=()):
    for name, inner in schema.get("properties", {}).items():
        yield (*path, name)
        if inner.get("type") == "object" and name not in ("volume", "behavior", "resources", "timeouts", "authenticationRef"):
            yield from properties(inner, (*path, name))
