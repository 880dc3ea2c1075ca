"""The Dockerfile, the compose file, the scrape configuration and the scripts pass their linters; links between documents lead to files."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
TOOLS = Path(sys.executable).parent


def run(tool, *arguments):
    done = subprocess.run([TOOLS / tool, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def tracked(pattern):
    return subprocess.run(["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


def test_the_dockerfile_passes_hadolint():
    run("hadolint", "Dockerfile")


def test_the_dockerfile_has_a_cpu_and_a_cuda_image_that_run_unprivileged():
    text = (ROOT / "Dockerfile").read_text()
    stages = text.split("\nFROM ")
    for name in ("cpu", "cuda"):
        (stage,) = [stage for stage in stages if stage.splitlines()[0].endswith(f"AS {name}")]
        assert "USER 65532:65532" in stage
        assert 'HEALTHCHECK' in stage and '["accelerd", "health"]' in stage


def test_yaml_files_are_well_formed():
    run("yamllint", "--strict", "--config-data", "{extends: relaxed, rules: {line-length: {max: 120}}}", "deploy",
        "helm/accelerd/ci", *tracked("helm/accelerd/values*.yaml"))


def test_the_scrape_configuration_names_the_services_of_the_compose_file():
    compose = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
    prometheus = yaml.safe_load((ROOT / "deploy/prometheus.yaml").read_text())
    targets = prometheus["scrape_configs"][0]["static_configs"][0]["targets"]
    assert {target.split(":")[0] for target in targets} == {name for name in compose["services"] if name.startswith("accelerd")}


def test_an_unprotected_daemon_is_published_on_loopback_only():
    compose = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
    daemons = [service for name, service in compose["services"].items() if name.startswith("accelerd")]
    assert daemons
    for daemon in daemons:
        assert daemon["environment"] == {"ACCELERD__AUTH__INSECURE": "true"}
        assert all(port.startswith("127.0.0.1:") for port in daemon["ports"])


def test_the_images_do_not_switch_protection_off():
    assert not re.search(r"^(?!#).*ACCELERD__", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert "auth" not in tomllib.loads((ROOT / "deploy/image.toml").read_text())


def test_the_images_expose_the_ports_of_their_settings():
    settings = tomllib.loads((ROOT / "deploy/image.toml").read_text())
    addresses = [*settings["server"].values(), settings["http"]["listen"]]
    exposed = re.findall(r"^EXPOSE (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert exposed == [" ".join(address.split(":")[1] for address in addresses)] * 2


def test_compose_mounts_nothing_over_the_settings_of_the_images():
    text = (ROOT / "deploy/compose.yaml").read_text()
    assert ":/etc/accelerd" not in text and ":/run/secrets/accelerd:ro" in text


def test_compose_has_a_volume_for_kernels_of_run_time_on_its_read_only_root():
    daemon = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())["services"]["accelerd-cuda"]
    cache = tomllib.loads((ROOT / "deploy/image.toml").read_text())["cuda"]["kernel_cache"]
    assert daemon["read_only"] and any(volume.endswith(f":{cache}/jit") for volume in daemon["volumes"])


def test_compose_builds_the_targets_of_the_dockerfile():
    compose = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
    targets = {service["build"]["target"] for service in compose["services"].values() if "build" in service}
    assert targets == {"cpu", "cuda"}


def links(document):
    text = re.sub(r"```.*?```", "", (ROOT / document).read_text(), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    return [target for target in targets if "://" not in target and not target.startswith("mailto:")]


def test_links_between_files_lead_somewhere():
    found = [(document, target) for document in tracked("*.md") for target in links(document)]
    assert len(found) > 100
    assert [] == [(document, target) for document, target in found if not (ROOT / document).parent.joinpath(target).exists()]


def test_shell_scripts_pass_shellcheck():
    scripts = [name for name in tracked("*") if (ROOT / name).is_file() and (ROOT / name).open("rb").read(15) == b"#!/usr/bin/env "]
    shell = [name for name in scripts if "bash" in (ROOT / name).open(errors="replace").readline()]
    assert shell, "there are shell scripts"
    run("shellcheck", *shell, *tracked("helm/accelerd/files/*.sh"))
