// Runs oracle.py in CPython built for WebAssembly.
//
//     node pyodide.mjs PYODIDE CLIENT SOURCES ANSWERS OUTCOMES
import { realpathSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const here = dirname(realpathSync(fileURLToPath(import.meta.url)));
const [folder, ...paths] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(resolve(folder, "pyodide.mjs")).href);
const python = await loadPyodide({ indexURL: resolve(folder) + "/" });

// Its file system is its own: the folders of this machine are mounted where the arguments point to.
const mounted = new Set();
const mount = (path) => {
  if (mounted.has(path)) return;
  mounted.add(path);
  python.FS.mkdirTree(path);
  python.FS.mount(python.FS.filesystems.NODEFS, { root: path }, path);
};
const inside = paths.map((path) => (path === "reference" ? path : resolve(path)));
[here, inside[0], ...inside.slice(1).filter((path) => path !== "reference").map(dirname)].forEach(mount);
python.globals.set("arguments", python.toPy([`${here}/oracle.py`, ...inside]));
python.runPython(`
import runpy, sys
sys.argv = arguments
runpy.run_path(arguments[0], run_name="__main__")
`);
