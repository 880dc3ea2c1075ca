// Unpacks the Chromium of the npm package @sparticuz/chromium, with the libraries and fonts that it needs, and makes a command of it:
// FOLDER/bin/chromium. So the tests need no package of the system.

import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliDecompressSync } from "node:zlib";

const folder = resolve(process.argv[2]);
const source = fileURLToPath(new URL("node_modules/@sparticuz/chromium/", import.meta.url));
const { version } = JSON.parse(readFileSync(join(source, "package.json"), "utf8"));
const unpacked = join(folder, `chromium-${version}`);

if (!existsSync(unpacked)) {
    const made = `${unpacked}.part`;
    mkdirSync(made, { recursive: true });
    const unpack = (name) => brotliDecompressSync(readFileSync(join(source, "bin", name)));
    writeFileSync(join(made, "chromium"), unpack("chromium.br"));
    chmodSync(join(made, "chromium"), 0o755);
    for (const name of ["al2023", "fonts"]) {
        mkdirSync(join(made, name));
        execFileSync("tar", ["-x", "-C", join(made, name)], { input: unpack(`${name}.tar.br`) });
    }
    renameSync(made, unpacked);
}
// Without a font of its own, Chromium ends where the system has none.
const fonts = `<fontconfig><dir>${unpacked}/fonts</dir><cachedir>${unpacked}/cache</cachedir></fontconfig>`;
const command = `#!/bin/sh
export LD_LIBRARY_PATH=${unpacked}/al2023/lib FONTCONFIG_FILE=${folder}/bin/fonts.conf
exec ${unpacked}/chromium "$@"
`;
mkdirSync(join(folder, "bin"), { recursive: true });
writeFileSync(join(folder, "bin/fonts.conf"), fonts);
writeFileSync(join(folder, "bin/chromium"), command, { mode: 0o755 });
