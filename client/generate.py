"""Writes the generated code of the clients in other languages: `python3 client/generate.py [--check] [LANGUAGE...]`.

proto/buf.gen.yaml lists the plugins of each language with their options and folders. The languages are the first components of these
folders: go, java, typescript; without arguments, all of them that have a folder here. --check writes nothing and fails if the committed
code differs; --output writes to another folder than client/. Needs buf, PyYAML and, for the language, go, npx or jgo: all from
tests/requirements.txt. Plugins stay in target/.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

CLIENT = Path(__file__).resolve().parent
PROTO = CLIENT.parent / "proto"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", CLIENT.parent / "target")).absolute()
TOOLS = TARGET / "generate"
#: The same folders as in client/go/test.
GO = {"GOPATH": str(TARGET / "go/path"), "GOCACHE": str(TARGET / "go/cache"), "GOFLAGS": "-modcacherw"}
#: Plugins of each language that are executables in Maven's repository: their name, group and version.
MAVEN_PLUGINS = {
    "java": [
        ("protoc", "com.google.protobuf", "4.33.1"),
        ("protoc-gen-grpc-java", "io.grpc", "1.77.0"),
    ],
}


def language_of(plugin: dict) -> str:
    return Path(plugin["out"]).parts[0]


def install_maven_plugins(language: str) -> None:
    plugins = MAVEN_PLUGINS.get(language, [])
    missing = [plugin for plugin in plugins if not installed(*plugin).exists()]
    if not missing:
        return
    from jgo.maven import MavenContext

    machine = {"x86_64": "linux-x86_64", "aarch64": "linux-aarch_64"}[platform.machine()]
    for name, group, version in missing:
        component = MavenContext().project(group, name).at_version(version)
        executable = installed(name, group, version)
        executable.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(component.artifact(classifier=machine, packaging="exe").resolve(), executable)
        executable.chmod(0o755)


def installed(name: str, _group: str, version: str) -> Path:
    """Return the path of an executable. Its folder names the version, so that another version is installed anew."""
    return TOOLS / f"{name}-{version}" / name


def environment(languages: list[str]) -> dict[str, str]:
    plugins = [plugin for language in languages for plugin in MAVEN_PLUGINS.get(language, [])]
    # The environment of this Python may have buf, go and npx.
    folders = [*(installed(*plugin).parent for plugin in plugins), Path(sys.executable).parent, os.environ["PATH"]]
    return {**GO, **os.environ, "PATH": os.pathsep.join(map(str, folders))}


def generate(languages: list[str], plugins: list[dict], output: Path) -> None:
    """Write the code of some languages into their folders in `output`."""
    for language in languages:
        install_maven_plugins(language)
    template = yaml.safe_load((PROTO / "buf.gen.yaml").read_text())
    template["plugins"] = [plugin for plugin in plugins if language_of(plugin) in languages]
    command = ["buf", "generate", "--template", json.dumps(template), "--output", output]
    subprocess.run(command, cwd=PROTO, env=environment(languages), check=True)


def files(folder: Path) -> dict[Path, str]:
    """Return the files of a folder by their path in it."""
    return {path.relative_to(folder): path.read_text() for path in folder.rglob("*") if path.is_file()}


def drift(fresh: Path, output: Path) -> list[Path]:
    """Return the paths in `output` that differ from fresh code, of all files in the folders that fresh code has files in."""
    expected = files(fresh)
    folders = {path.parent for path in expected}
    there = {path.relative_to(output) for folder in folders for path in (output / folder).glob("*") if path.is_file()}
    return sorted(path for path in there | expected.keys() if path not in there or (output / path).read_text() != expected.get(path))


def update(fresh: Path, output: Path, changed: list[Path]) -> None:
    for path in changed:
        (output / path).unlink(missing_ok=True)
        if (fresh / path).exists():
            (output / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(fresh / path, output / path)


def main() -> None:
    plugins = yaml.safe_load((PROTO / "buf.gen.yaml").read_text())["plugins"]
    known = list(dict.fromkeys(map(language_of, plugins)))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is out of date")
    parser.add_argument("--output", type=Path, default=CLIENT, metavar="FOLDER", help="default: client/")
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help=", ".join(known))
    arguments = parser.parse_args()
    if unknown := set(arguments.languages).difference(known):
        parser.error(f"LANGUAGE: expected {', '.join(known)}, got {', '.join(sorted(unknown))}")
    languages = arguments.languages or [language for language in known if (CLIENT / language).is_dir()]
    with tempfile.TemporaryDirectory() as scratch:
        generate(languages, plugins, Path(scratch))
        changed = drift(Path(scratch), arguments.output)
        if not arguments.check:
            update(Path(scratch), arguments.output, changed)
        elif changed:
            sys.exit(f"out of date: {', '.join(map(str, changed))}; run python3 client/generate.py")


if __name__ == "__main__":
    main()
