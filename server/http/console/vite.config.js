import { readFileSync } from "node:fs";
import { defineConfig } from "vite";

const PROTO = new URL("../../../proto/accelerd/v1/parse.proto", import.meta.url);

/** The names of the enums of a .proto file by number, without their prefixes: columns hold numbers. */
function enums() {
    const id = "virtual:parse-enums";
    return {
        name: "parse-enums",
        resolveId: (source) => (source === id ? `\0${id}` : null),
        load(source) {
            if (source !== `\0${id}`) return null;
            const text = readFileSync(PROTO, "utf8");
            const found = [...text.matchAll(/^enum (\w+) \{([\s\S]*?)^\}/gm)].map(([, name, body]) => {
                const prefix = `${name.replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase()}_`;
                const values = [...body.matchAll(/^ {2}(\w+) = (\d+);/gm)];
                const names = [];
                for (const [, value, number] of values) names[Number(number)] = value.replace(prefix, "");
                return `export const ${name} = ${JSON.stringify(names)};`;
            });
            return found.join("\n");
        },
    };
}

export default defineConfig({
    base: "/console/",
    plugins: [enums()],
    oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
    build: {
        target: "es2022",
        modulePreload: false,
        assetsInlineLimit: 0,
        rollupOptions: { output: { entryFileNames: "console.js", assetFileNames: "console[extname]" } },
    },
    // For development: ACCELERD_CONSOLE_TARGET=http://127.0.0.1:7436 npx vite
    server: {
        proxy: {
            "/accelerd.v1.": { target: process.env.ACCELERD_CONSOLE_TARGET ?? "http://127.0.0.1:7436", headers: { origin: "" } },
        },
    },
});
