// The TypeScript of documents compiles. The golden suite runs the README's first lines.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

const FOLDER = new URL("../../", import.meta.url);
const SNIPPETS = new URL("dist/snippets/", FOLDER);
/** What the blocks use that others declare. */
const GIVEN = `import { AccelerdError, Client, EmbedService, Graph, Tensor, type UpsertStep } from "accelerd";
declare const [token, batches, steps]: [string, string[][], UpsertStep[]];
`;
const CLIENT = "declare const client: Client;\n";

after(() => rmSync(SNIPPETS, { recursive: true, force: true }));

for (const document of ["README.md", "http.md"].filter((name) => existsSync(new URL(name, FOLDER)))) {
    test(document, () => {
        const blocks = [...readFileSync(new URL(document, FOLDER), "utf8").matchAll(/^```ts\n(.*?)^```$/gms)].map(
            ([, block = ""]) => block,
        );
        assert.notEqual(blocks.length, 0);
        mkdirSync(SNIPPETS, { recursive: true });
        const files = blocks.map((block, at) => {
            const own = block.includes("const client") ? "" : CLIENT;
            const file = new URL(`${document}.${at}.ts`, SNIPPETS);
            writeFileSync(file, block.startsWith("import ") ? block : GIVEN + own + block);
            return fileURLToPath(file);
        });
        const options = "--ignoreConfig --noEmit --strict --skipLibCheck --target es2022 --lib es2023,dom --module nodenext --types node";
        const compiler = fileURLToPath(new URL("node_modules/typescript/bin/tsc", FOLDER));
        execFileSync(process.execPath, [compiler, ...options.split(" "), ...files], {
            cwd: FOLDER,
            stdio: ["ignore", "inherit", "inherit"],
        });
    });
}
