"""Makes the packages of a release: tarball, wheels, Debian package, notices, SBOM and checksums.

    python3 release.py [--output FOLDER] [--binaries FOLDER] [--kernels FOLDER] [--documents FOLDER] [--target aarch64]

The programs are linked by zig against GLIBC 2.28, which manylinux_2_28 names, unless `--binaries` has them. The kernels are compiled for
GPUs from Ampere on, which takes ten minutes of a core, unless `--kernels` has them. `--documents` has THIRD-PARTY-NOTICES and *.cdx.json,
which `just release` makes before.

A run for another architecture comes second: it adds its packages to the folder, with the kernels and manuals of this machine's tarball.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import platform as machine
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAMS = ("accelerd", "accelctl")
GLIBC = "2.28"
MAINTAINER = "The developers of accelerd <accelerd@users.noreply.github.com>"
#: Architectures that have compiled kernels in a package. Older ones compile them at the first start.
ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


@dataclass(frozen=True)
class Platform:
    """What the tools call a platform."""

    target: str
    wheel: str
    debian: str
    zig: str


PLATFORMS = {
    "x86_64": Platform("x86_64-unknown-linux-gnu", "manylinux_2_28_x86_64", "amd64", "x86_64-linux-gnu"),
    "aarch64": Platform("aarch64-unknown-linux-gnu", "manylinux_2_28_aarch64", "arm64", "aarch64-linux-gnu"),
}
NATIVE = PLATFORMS.get(machine.machine())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "dist" / "release", metavar="FOLDER")
    parser.add_argument("--target", default=machine.machine(), choices=PLATFORMS)
    parser.add_argument("--binaries", type=Path, metavar="FOLDER", help="folder of built programs")
    parser.add_argument("--kernels", type=Path, metavar="FOLDER", help="folder of compiled kernels")
    parser.add_argument("--documents", type=Path, metavar="FOLDER", help="folder of the notices and the SBOM")
    arguments = parser.parse_args()
    platform = PLATFORMS[arguments.target]
    output = arguments.output.resolve()
    if platform is NATIVE:
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True)
    elif not tarball(NATIVE, output).exists():
        parser.error(f"{tarball(NATIVE, output)} is missing: make the packages of this machine's architecture first")
    with tempfile.TemporaryDirectory() as folder:
        prefix = Path(folder) / installation(platform)
        stage(prefix, arguments.binaries or build(platform), arguments.documents)
        if platform is NATIVE:
            add_manuals(prefix)
            add_kernels(prefix, arguments.kernels)
        else:
            add_from(tarball(NATIVE, output), prefix)
        pack(prefix, output)
        server_wheel(prefix, platform, output)
        debian_package(prefix, platform, output)
    client_wheels(platform, output)
    for sbom in sorted(arguments.documents.glob("*.cdx.json")) if arguments.documents else ():
        shutil.copy(sbom, output)
    checksums(output)


def version() -> str:
    """The version of the workspace."""
    lines = (ROOT / "Cargo.toml").read_text().splitlines()
    return next(line.split('"')[1] for line in lines if line.startswith("version = "))


def debian_version() -> str:
    """The version of the Debian package: the program's, and the package's own."""
    return f"{version()}-1"


def installation(platform: Platform) -> str:
    """The name of the folder in a tarball."""
    return f"accelerd-{version()}-{platform.target}"


def tarball(platform: Platform, output: Path) -> Path:
    """The tarball of a platform."""
    return output / f"{installation(platform)}.tar.gz"


def build(platform: Platform) -> Path:
    """Build the programs. Returns their folder."""
    folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    environment = dict(os.environ)
    if not has_standard_library(platform):
        # The folder of another compiler: builds of two would delete each other's work.
        toolchain = folder / "release-tools" / platform.target
        run(HERE / "toolchain", toolchain, platform.target, platform.debian)
        folder = folder / "release-debian"
        environment |= {"RUSTC": str((toolchain / "rustc").resolve()), "CARGO_TARGET_DIR": str(folder.resolve())}
    packages = [argument for program in PROGRAMS for argument in ("--package", program)]
    command = ["cargo", "zigbuild", "--release", "--locked", "--target", f"{platform.target}.{GLIBC}", *packages, "--bins"]
    run(*command, cwd=ROOT, env=environment)
    return folder / platform.target / "release"


def has_standard_library(platform: Platform) -> bool:
    """Whether the Rust compiler has the standard library of a platform."""
    command = ["rustc", "--print", "target-libdir", "--target", platform.target]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return Path(printed.stdout.strip()).is_dir()


def stage(prefix: Path, binaries: Path, documents: Path | None) -> None:
    """Lay an installation out: programs and licences."""
    for program in PROGRAMS:
        install(binaries / program, prefix / "bin" / program, 0o755)
    documentation = prefix / "share" / "doc" / "accelerd"
    install(ROOT / "LICENSE", documentation / "LICENSE")
    install(ROOT / "CHANGELOG.md", documentation / "CHANGELOG.md")
    if documents:
        install(documents / "THIRD-PARTY-NOTICES", documentation / "NOTICES")


def add_manuals(prefix: Path) -> None:
    """Write the manual pages of the programs."""
    for program in PROGRAMS:
        manual(prefix / "bin" / program, prefix / "share" / "man" / "man1" / f"{program}.1")


def add_kernels(prefix: Path, kernels: Path | None) -> None:
    """Add the compiled kernels: those of a folder, or new ones."""
    folder = prefix / "share" / "accelerd" / "kernels"
    if kernels:
        shutil.copytree(kernels, folder)
    else:
        compile_kernels(prefix / "bin" / "accelerd", folder)
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"kernels: {size / 1e6:.1f} MB for {', '.join(ARCHITECTURES)}")


def add_from(archive: Path, prefix: Path) -> None:
    """Add what does not depend on the processor, which the tarball of another platform has: manuals and kernels."""
    with tarfile.open(archive) as packed:
        for member in packed.getmembers():
            member.name = member.name.partition("/")[2]
            if member.name.startswith(("share/man/", "share/accelerd/")):
                packed.extract(member, prefix, filter="tar")


def install(source: Path, target: Path, mode: int = 0o644) -> None:
    """Copy a file, with the modes of an installation."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def manual(program: Path, target: Path) -> None:
    """Write the manual page of a program from its help."""
    description = {"accelerd": "GPU acceleration for code over gRPC and HTTP", "accelctl": "command line of accelerd"}
    target.parent.mkdir(parents=True, exist_ok=True)
    run("help2man", "--no-info", "--name", description[program.name], "--output", target, program)


def compile_kernels(daemon: Path, folder: Path) -> None:
    """Compile the kernels by NVRTC, whose folder ACCELERD_NVRTC_PATH names."""
    command = [daemon, "kernels", "build", "--installation", "--arch", ",".join(ARCHITECTURES), "--cache", folder]
    if libraries := os.environ.get("ACCELERD_NVRTC_PATH"):
        command += ["--set", f"cuda.library_path={libraries}"]
    run(*command)


def pack(prefix: Path, output: Path) -> None:
    """Pack the installation, and a unit for systemd."""
    install(HERE / "accelerd.service", prefix / "lib" / "systemd" / "system" / "accelerd.service")
    with tarfile.open(output / f"{prefix.name}.tar.gz", "w:gz") as archive:
        archive.add(prefix, prefix.name, filter=owned_by_root)


def owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """An entry without the names of this machine's users."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def server_wheel(prefix: Path, platform: Platform, output: Path) -> None:
    """Make the wheel of the programs."""
    environment = {"ACCELERD_PREFIX": str(prefix), "ACCELERD_PLATFORM": platform.wheel}
    hatch(HERE / "wheel", output, environment)


def client_wheels(platform: Platform, output: Path) -> None:
    """Make the client's wheels: one with the C extension, and one for machines that it does not run on."""
    compiler = f"{sys.executable} -m ziglang cc -target {platform.zig}.{GLIBC}"
    hatch(ROOT / "client" / "python", output, {"ACCELERD_PLATFORM": platform.wheel, "CC": compiler})
    hatch(ROOT / "client" / "python", output, {"ACCELERD_PURE": "1"})


def hatch(project: Path, output: Path, environment: dict[str, str]) -> None:
    """Build a wheel."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", output]
    run(*command, cwd=project, env=os.environ | environment)


def debian_package(prefix: Path, platform: Platform, output: Path) -> None:
    """Make the Debian package, whose service runs once it is installed."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        shutil.copytree(prefix, root / "usr", ignore=shutil.ignore_patterns("lib"))
        install(HERE / "accelerd.service", root / "usr" / "lib" / "systemd" / "system" / "accelerd.service")
        install(HERE / "debian" / "config.toml", root / "etc" / "accelerd" / "config.toml")
        install(HERE / "debian" / "lintian-overrides", root / "usr" / "share" / "lintian" / "overrides" / "accelerd")
        documents(root / "usr" / "share" / "doc" / "accelerd")
        for page in (root / "usr" / "share" / "man" / "man1").iterdir():
            compress(page)
        control(root, platform)
        for path in (root, *root.rglob("*")):
            if path.is_dir():
                path.chmod(0o755)
        run("dpkg-deb", "--build", "--root-owner-group", "-Zxz", root, output)


def documents(folder: Path) -> None:
    """Write what Debian's policy expects in the folder of documentation."""
    (folder / "LICENSE").unlink()
    (folder / "CHANGELOG.md").rename(folder / "changelog")
    compress(folder / "changelog")
    date = formatdate(float(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    entry = f"accelerd ({debian_version()}) unstable; urgency=medium\n\n  * Release {version()}.\n\n -- {MAINTAINER}  {date}\n"
    (folder / "changelog.Debian").write_text(entry)
    compress(folder / "changelog.Debian")
    if (folder / "NOTICES").exists():
        compress(folder / "NOTICES")
    licence = (ROOT / "LICENSE").read_text().splitlines()[4:]
    text = "".join(f" {line or '.'}\n" for line in licence)
    (folder / "copyright").write_text((HERE / "debian" / "copyright").read_text() + text)


def control(root: Path, platform: Platform) -> None:
    """Write the control files."""
    folder = root / "DEBIAN"
    folder.mkdir()
    files = sorted(path for path in root.rglob("*") if path.is_file())
    kilobytes = sum(path.stat().st_size for path in files) // 1024
    text = (HERE / "debian" / "control").read_text()
    (folder / "control").write_text(
        text.format(version=debian_version(), maintainer=MAINTAINER, architecture=platform.debian, installed_size=kilobytes)
    )
    (folder / "conffiles").write_text("/etc/accelerd/config.toml\n")
    sums = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n" for path in files]
    (folder / "md5sums").write_text("".join(sums))
    for script in ("postinst", "prerm", "postrm"):
        install(HERE / "debian" / script, folder / script, 0o755)


def compress(path: Path) -> None:
    """Replace a file by its compressed form, which is the same in every build."""
    with open(f"{path}.gz", "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as archive:
        archive.write(path.read_bytes())
    path.unlink()


def checksums(output: Path) -> None:
    """Write the SHA-256 of each file, as `sha256sum --check` reads them."""
    lines = []
    for path in sorted(path for path in output.iterdir() if path.name != "SHA256SUMS"):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        lines.append(f"{digest}  {path.name}\n")
        print(f"{path.stat().st_size / 1e6:9.1f} MB  {path.name}")
    (output / "SHA256SUMS").write_text("".join(lines))


def run(*command: object, **options: object) -> None:
    """Run a command; its failure ends this one."""
    subprocess.run([str(part) for part in command], check=True, **options)  # type: ignore[call-overload]


if __name__ == "__main__":
    main()
