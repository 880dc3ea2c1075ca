"""How callers and Prometheus reach the pods of the chart."""

import os
import re
import subprocess
from pathlib import Path

import loopback
import pytest
from chart import INSECURE, container, documents, merged, pod, render, settings, workload
from chart_options import OPTIONS
from helm_python.errors import HelmError


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
        ports = manifests["Service"]["spec"]["ports"], manifests["HeadlessService"]["spec"]["ports"], container(manifests)["ports"]
        return tuple([port["name"] for port in of_kind] for of_kind in ports)

    all_ports = ["grpc", "http", "metrics", "health"]
    assert names("0.0.0.0:7436") == (["grpc", "http"], all_ports, all_ports)
    assert names("") == (["grpc"], ["grpc", "metrics", "health"], ["grpc", "metrics", "health"])
    with pytest.raises(HelmError, match="listen"):
        names("auto")


def with_option(name, **values):
    return render(merged(INSECURE, OPTIONS[name], values))


def test_services_select_the_pods_and_not_the_test():
    manifests = render(INSECURE)
    pods, test = pod(manifests)["metadata"]["labels"], manifests["Pod"]["metadata"]["labels"]
    selectors = [manifests[name]["spec"]["selector"] for name in ("Service", "HeadlessService")]
    assert all(selector.items() <= pods.items() and not selector.items() <= test.items() for selector in selectors)
    assert FROM_THE_TEST["podSelector"]["matchLabels"].items() <= test.items()


def test_a_load_balancer_does_not_publish_metrics():
    spec = with_option("load balancer")["Service"]["spec"]
    assert [(port["name"], port["port"], port["targetPort"]) for port in spec["ports"]] == [("grpc", 443, "grpc"), ("http", 8443, "http")]
    assert spec["externalTrafficPolicy"] == "Local" and spec["loadBalancerSourceRanges"] == ["10.0.0.0/8"]


FROM_THE_TEST = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "accelerd-test", "app.kubernetes.io/instance": "test"}}}


def allowed(policy):
    """Peers of each port."""
    rules = [rule for rule in policy["spec"]["ingress"] if rule.get("from") != [FROM_THE_TEST]]
    assert len(rules) == len(policy["spec"]["ingress"]) - 1
    return {port["port"]: rule.get("from") for rule in rules for port in rule["ports"]}


def test_the_network_policy_opens_ports_to_their_callers_only():
    policy = with_option("network policy", networkPolicy={"restrictEgress": False})["NetworkPolicy"]
    callers = OPTIONS["network policy"]["networkPolicy"]["callers"]
    assert allowed(policy) == {"grpc": callers, "http": callers, "metrics": [{"namespaceSelector": {}}], "health": None}
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    ports = {port["name"] for port in container(render(INSECURE))["ports"]}
    assert set(allowed(policy)) == ports
    assert policy["spec"]["podSelector"] == workload(render(INSECURE))["spec"]["selector"]


def test_without_callers_nobody_calls():
    closed = render(INSECURE | {"networkPolicy": {"enabled": True, "callers": [], "scrapers": []}})["NetworkPolicy"]
    assert allowed(closed) == {"health": None}
    assert "http" not in allowed(with_option("no HTTP")["NetworkPolicy"])


def test_restricted_pods_reach_names_and_what_the_rules_say():
    spec = with_option("network policy")["NetworkPolicy"]["spec"]
    names, *rules = spec["egress"]
    assert spec["policyTypes"] == ["Ingress", "Egress"] and {port["port"] for port in names["ports"]} == {53}
    assert rules == OPTIONS["network policy"]["networkPolicy"]["egressRules"]


def test_routes_and_ingresses_lead_to_ports_of_the_service():
    manifests = documents(merged(INSECURE, OPTIONS["routes of a gateway"], OPTIONS["ingresses"], OPTIONS["load balancer"]))
    (service,) = [one for one in manifests if one["metadata"]["name"] == "test-accelerd" and one["kind"] == "Service"]
    ports = {port["name"]: port["port"] for port in service["spec"]["ports"]}
    for name, kind in {"grpc": "GRPCRoute", "http": "HTTPRoute"}.items():
        (route,) = [one for one in manifests if one["kind"] == kind]
        assert route["spec"]["rules"][0]["backendRefs"] == [{"name": "test-accelerd", "port": ports[name]}]
        assert route["spec"]["hostnames"] == [f"{name}.example.com"]
        (ingress,) = [one for one in manifests if one["metadata"]["name"] == f"test-accelerd-{name}"]
        backends = [path["backend"]["service"] for rule in ingress["spec"]["rules"] for path in rule["http"]["paths"]]
        assert all(backend == {"name": "test-accelerd", "port": {"name": name}} for backend in backends)


@pytest.mark.parametrize(("option", "endpoints"), [("service monitor", "endpoints"), ("pod monitor", "podMetricsEndpoints")])
def test_a_monitor_scrapes_each_pod_once(option, endpoints):
    manifests = with_option(option)
    monitor = manifests["ServiceMonitor" if endpoints == "endpoints" else "PodMonitor"]
    selector = monitor["spec"]["selector"]["matchLabels"]
    assert monitor["metadata"]["namespace"] == "monitoring" and monitor["metadata"]["labels"]["release"] == "kube-prometheus-stack"
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["default"]}
    (endpoint,) = monitor["spec"][endpoints]
    targets = [manifests["Service"], manifests["HeadlessService"]] if endpoints == "endpoints" else [pod(manifests)]
    matching = [target for target in targets if selector.items() <= target["metadata"]["labels"].items()]
    ports = [port["name"] for target in matching for port in target["spec"].get("ports", container(manifests)["ports"])]
    assert ports.count(endpoint["port"]) == 1
    assert (endpoint["path"], endpoint["interval"], endpoint["scrapeTimeout"]) == ("/metrics", "15s", "10s")


ROUTE = {"enabled": True, "parentRefs": [{"name": "a"}]}
ROUTES = [
    ({"grpcRoute": {"enabled": True}}, "grpcRoute.enabled needs grpcRoute.parentRefs"),
    ({"httpRoute": {"enabled": True}}, "httpRoute.enabled needs httpRoute.parentRefs"),
    ({"ingress": {"http": {"enabled": True}}}, "ingress.http.enabled needs ingress.http.hosts"),
    ({"ingress": {"http": {"enabled": True, "hosts": ["a.b"]}}, "config": {"http": {"listen": ""}}}, "needs config.http.listen"),
    ({"ingress": {"http": {"enabled": True, "hosts": ["a.b"]}}, "config": {"http": {"hosts": ["c.d"]}}}, "a.b is routed to the HTTP port"),
    ({"grpcRoute": ROUTE, "httpRoute": ROUTE}, "a listener and a host name in common"),
    ({"backendTLS": {"enabled": True, "hostname": "a"}}, "backendTLS.enabled needs tls.secretName"),
    ({"backendTLS": {"enabled": True}, "tls": {"secretName": "a"}}, "backendTLS.enabled needs backendTLS.hostname"),
    ({"metrics": {name: {"enabled": True} for name in ("serviceMonitor", "podMonitor")}}, "would scrape each pod twice"),
    (
        {"metrics": {"podMonitor": {"enabled": True}}, "config": {"server": {"admin_listen": "127.0.0.1:7434"}}},
        "config.server.admin_listen is 127.0.0.1:7434, where Prometheus cannot reach it",
    ),
]


@pytest.mark.parametrize(("values", "message"), ROUTES, ids=str)
def test_a_way_to_the_pods_that_leads_nowhere_is_refused(values, message):
    with pytest.raises(HelmError, match=message):
        render(INSECURE | values)


def test_a_host_name_that_the_daemon_accepts_is_routed():
    values = {"ingress": {"http": {"enabled": True, "hosts": ["a.b"]}}, "config": {"http": {"hosts": ["a.b"]}}}
    assert render(INSECURE | values)["Ingress"]["spec"]["rules"][0]["host"] == "a.b"


def commands(**values):
    """Arguments of the test's containers."""
    spec = render(merged(INSECURE, values))["Pod"]["spec"]
    return {one["name"]: one.get("command", ["accelerd"]) + one["args"] for one in spec["containers"]}


def test_the_test_checks_pods_and_service():
    found = commands(service={"port": 80}, config={"server": {"health_listen": "0.0.0.0:1234"}})
    assert found == {
        "health": ["accelerd", "health", "--address", "test-accelerd-pods.default.svc:1234", "--service", "readiness"],
        "call": ["accelctl", "--server", "http://test-accelerd.default.svc:80", "health"],
    }
    assert set(commands(tls={"secretName": "tls"})) == {"health"}


def test_the_test_calls_with_the_secrets_of_the_values():
    values = merged(INSECURE, OPTIONS["calls of the test with TLS"])
    spec = render(values)["Pod"]["spec"]
    folders = {mount["mountPath"]: mount["name"] for mount in spec["containers"][1]["volumeMounts"]}
    secrets = {volume["name"]: volume["secret"]["secretName"] for volume in spec["volumes"]}
    arguments = commands(**values)["call"][1:-1]
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    found = {name: secrets[folders[file.rsplit("/", 1)[0]]] for name, file in options.items() if file.startswith("/")}
    assert found == {"--tls-ca": "accelerd-tls", "--tls-cert": "client", "--tls-key": "client", "--token-file": "token"}
    assert options["--server"].startswith("https://") and options["--tls-server-name"] == "accelerd"


def test_the_commands_of_the_test_succeed_only_with_a_daemon():
    if "ACCELERD_BIN" not in os.environ:
        pytest.skip("ACCELERD_BIN names no daemon")
    folder = Path(os.environ["ACCELERD_BIN"]).parent

    def codes(grpc, health):
        given = commands(service={"port": int(grpc.split(":")[1])}, config={"server": {"health_listen": f"0.0.0.0:{health.split(':')[1]}"}})
        local = [[re.sub(r"test-accelerd(-pods)?\.default\.svc", "localhost", part) for part in command] for command in given.values()]
        return [subprocess.run([folder / name, *rest], capture_output=True).returncode for name, *rest in local]

    with loopback.serve({"BACKEND__KIND": "cpu"}) as daemon:
        addresses = daemon["SERVER__LISTEN"], daemon["SERVER__HEALTH_LISTEN"]
        assert codes(*addresses) == [0, 0]
    assert all(code != 0 for code in codes(*addresses))
