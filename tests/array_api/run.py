"""Runs data-apis/array-api-tests against the namespace of a client, whose daemon is at ACCELERD_SERVER.

python3 tests/array_api/run.py CHECKOUT [options of pytest]

CHECKOUT is a clone of the suite with its submodule, which is not changed. The requirements of the suite and the client
must be installed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
#: The suite takes it for granted that there are complex types, which may be skipped but not be missing.
ASSUMES_COMPLEX = "for dt in complex_dtypes]"
#: Tests that the namespace cannot pass: of complex numbers, and of extensions that it does not have.
DESELECTED = "not imag and not linalg- and not fft-"


def main(checkout: Path, options: list[str]) -> int:
    """Run the suite in a copy that needs no complex types."""
    with tempfile.TemporaryDirectory() as folder:
        suite = Path(shutil.copytree(checkout, Path(folder) / "suite", symlinks=True))
        helpers = suite / "array_api_tests" / "dtype_helpers.py"
        text = helpers.read_text()
        if text.count(ASSUMES_COMPLEX) != 1:
            raise SystemExit(f"{helpers.name}: expected {ASSUMES_COMPLEX!r} once; this version of the suite is unknown")
        helpers.write_text(text.replace(ASSUMES_COMPLEX, "for dt in complex_dtypes or real_float_dtypes]"))
        paths = [str(HERE), str(HERE.parents[1] / "client" / "python" / "src"), os.environ.get("PYTHONPATH", "")]
        environment = {
            "ARRAY_API_TESTS_MODULE": "accelerd_xp.xp",
            "ARRAY_API_TESTS_SKIP_DTYPES": "complex64,complex128",
            "PYTHONPATH": os.pathsep.join(paths),
        }
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", DESELECTED]
        settings = ["--disable-deadline", "--derandomize", "--disable-data-dependent-shapes"]
        command = [*pytest, *settings, *options, "array_api_tests"]
        return subprocess.run(command, cwd=suite, env={**os.environ, **environment}, check=False).returncode


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    raise SystemExit(main(Path(sys.argv[1]), sys.argv[2:]))
