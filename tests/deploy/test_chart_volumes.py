"""Volumes of the chart: durable collections, kernels and models; folders that the daemon writes are on one."""

import hashlib
import os
import subprocess
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from chart import IMAGE, INSECURE, ROOT, VALUES, container, merged, mounts, notes, pod, render, settings, volumes
from chart_options import OPTIONS
from helm_python.errors import HelmError


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
    assert "Each of the pods has collections of its own" in notes(INSECURE | {"replicaCount": 3})


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
        manifests = render(INSECURE | values | more)
        assert volume in pod(manifests)["spec"]["volumes"] and mount in container(manifests)["volumeMounts"]
        assert settings(manifests)["models"]["preload"][0]["path"] == "/models/minilm"
    read_only = values | {"config": {"models": {"hub": {"cache": "/models"}}}}
    with pytest.raises(HelmError, match="config.models.hub.cache is /models"):
        render(INSECURE | read_only)


def test_models_of_a_volume_are_folders_of_the_settings():
    manifests = render(merged(INSECURE, OPTIONS["models on a claim"]))
    assert volumes(manifests)["models"]["persistentVolumeClaim"] == {"claimName": "models", "readOnly": True}
    assert mounts(manifests)["/models"] == "models" and settings(manifests)["models"]["folders"] == ["/models"]
    chosen = merged(INSECURE, OPTIONS["models on a claim"], {"config": {"models": {"folders": ["/models/a"]}}})
    assert settings(render(chosen))["models"]["folders"] == ["/models/a"]
    assert "models" not in volumes(render(INSECURE)) and "models" not in settings(render(INSECURE))


def test_the_cache_of_the_hub_is_on_a_volume_that_can_be_written():
    values = merged(INSECURE, OPTIONS["cache of the hub"])
    assert settings(render(values))["models"]["hub"]["cache"] == "/models/hub"
    with pytest.raises(HelmError, match="config.models.hub.cache is /models/hub, which is on the read-only root"):
        render(merged(values, {"models": {"readOnly": True}}))


def test_no_volume_is_of_the_node_unless_it_is_asked_for():
    for values in VALUES.values():
        assert not [volume for volume in volumes(render(values)).values() if "hostPath" in volume]


def test_kernels_of_run_time_are_kept_on_a_claim():
    assert volumes(render(merged(INSECURE, OPTIONS["kernels on a claim"])))["kernels"]["persistentVolumeClaim"] == {"claimName": "kernels"}


DOWNLOAD = {"files": [{"url": "https://a/b", "path": "b"}]}


@pytest.mark.parametrize(("models", "message"), [
    ({"download": DOWNLOAD}, "models.download.files needs models.volume"),
    ({"download": DOWNLOAD, "volume": {"persistentVolumeClaim": {"claimName": "a", "readOnly": True}}}, "models.volume, which is readOnly"),
    ({"download": {"files": [{"url": "https://a/b", "path": "a/../../b"}]}, "volume": {"emptyDir": {}}}, "path"),
])
def test_a_download_to_nowhere_is_refused(models, message):
    with pytest.raises(HelmError, match=message):
        render(INSECURE | {"models": models})


CONTENT = {"/a/model.safetensors": b"weights", "/b/it's $(here).json": b"{}"}


class Hub(BaseHTTPRequestHandler):
    """A hub that serves CONTENT, counts requests, and redirects from /moved to another host name."""

    def do_GET(self):
        self.server.seen.append((self.path, self.headers.get("Authorization")))
        path = urllib.parse.unquote(self.path)
        if path.startswith("/moved"):
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{self.server.server_port}{self.path.removeprefix('/moved')}")
            self.end_headers()
            return
        self.send_response(200 if path in CONTENT else 404)
        self.send_header("Content-Length", str(len(CONTENT.get(path, b""))))
        self.end_headers()
        self.wfile.write(CONTENT.get(path, b""))

    def log_message(self, *_):
        pass


@pytest.fixture
def hub():
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        server.seen = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def download(hub, folder, *files, **values):
    """Runs the init container's command on a folder of this machine."""
    url = f"http://127.0.0.1:{hub.server_port}"
    wanted = {"files": [{**file, "url": url + file["url"]} for file in files]}
    models = {"mountPath": str(folder), "volume": {"emptyDir": {}}, "download": wanted}
    chosen = merged(INSECURE, {"models": models, "config": {"models": {"hub": {"endpoint": url}}}}, values)
    (init,) = pod(render(chosen))["spec"]["initContainers"]
    environment = {"PATH": os.environ["PATH"], "HF_TOKEN": "secret", "no_proxy": "*"}
    return subprocess.run(init["command"] + init["args"], env=environment, capture_output=True, text=True)


def test_models_are_downloaded_once_and_checked(hub, tmp_path):
    weights = {"url": "/a/model.safetensors", "path": "a/model.safetensors", "sha256": hashlib.sha256(b"weights").hexdigest()}
    odd = {"url": "/b/it's%20$(here).json", "path": "b/it's$(here).json"}
    for _ in range(2):
        done = download(hub, tmp_path, weights, odd)
        assert done.returncode == 0, done.stderr
    assert len(hub.seen) == 2
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")) == ["a/model.safetensors", "b/it's$(here).json"]
    assert (tmp_path / "a/model.safetensors").read_bytes() == b"weights"
    (tmp_path / "a/model.safetensors").write_bytes(b"other")
    assert download(hub, tmp_path, weights).returncode == 0 and (tmp_path / "a/model.safetensors").read_bytes() == b"weights"


def test_a_file_with_another_hash_and_a_missing_one_stop_the_pod(hub, tmp_path):
    wrong = {"url": "/a/model.safetensors", "path": "model", "sha256": "0" * 64}
    done = download(hub, tmp_path, wrong)
    assert done.returncode == 1 and "has not the sha256" in done.stderr
    assert download(hub, tmp_path, {"url": "/none", "path": "none"}).returncode != 0
    assert list(tmp_path.iterdir()) == []


def test_the_token_is_sent_to_the_hub_only(hub, tmp_path):
    file = {"url": "/moved/a/model.safetensors", "path": "a"}
    assert download(hub, tmp_path, file).returncode == 0
    assert hub.seen == [("/moved/a/model.safetensors", "Bearer secret"), ("/a/model.safetensors", None)]
    hub.seen.clear()
    elsewhere = {"config": {"models": {"hub": {"endpoint": "http://127.0.0.1:1"}}}}
    for name, values in {"b": elsewhere, "c": {"models": {"download": {"sendToken": False}}}}.items():
        assert download(hub, tmp_path, {"url": "/a/model.safetensors", "path": name}, **values).returncode == 0
    assert [token for _, token in hub.seen] == [None, None]
