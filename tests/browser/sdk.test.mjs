// Chromium makes the golden suite's calls by the TypeScript client, over gRPC-Web, from a page of another origin. `run` calls this.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { Daemon, FLAGS } from "./daemon.mjs";

/** The compiled client with its packages. */
const { CLIENT, CASES } = process.env;
const { CALLS } = await import(pathToFileURL(join(CLIENT, "dist/tests/golden_calls.js")));
/** What a bundler does for a browser. */
const imports = {
    accelerd: "/dist/src/browser.js",
    "@bufbuild/protobuf": "/node_modules/@bufbuild/protobuf/dist/esm/index.js",
    "@bufbuild/protobuf/": "/node_modules/@bufbuild/protobuf/dist/esm/",
    "@bufbuild/protobuf/codegenv2": "/node_modules/@bufbuild/protobuf/dist/esm/codegenv2/index.js",
    "@bufbuild/protobuf/wire": "/node_modules/@bufbuild/protobuf/dist/esm/wire/index.js",
    "@bufbuild/protobuf/wkt": "/node_modules/@bufbuild/protobuf/dist/esm/wkt/index.js",
    "@bufbuild/protobuf/reflect": "/node_modules/@bufbuild/protobuf/dist/esm/reflect/index.js",
    "@connectrpc/connect": "/node_modules/@connectrpc/connect/dist/esm/index.js",
    "@connectrpc/connect/protocol": "/node_modules/@connectrpc/connect/dist/esm/protocol/index.js",
    "@connectrpc/connect/protocol-grpc-web": "/node_modules/@connectrpc/connect/dist/esm/protocol-grpc-web/index.js",
    "@connectrpc/connect-web": "/node_modules/@connectrpc/connect-web/dist/esm/index.js",
};
const PAGE = `<script type="importmap">${JSON.stringify({ imports })}</script><script type="module">
    import * as sdk from "accelerd";
    import { CALLS } from "/dist/tests/golden_calls.js";
    window.make = (target, name, cases) => CALLS[name](new sdk.Client(target), cases);
    window.verify = (target) => new sdk.Client(target).verify("", "").catch(({ code, reason }) => [code, reason]);
    window.unreachable = (target) => new sdk.Client(target, { timeoutMs: 300 }).devices().catch(({ code }) => code);
</script>`;
const TYPES = { ".js": "text/javascript", "": "text/html" };

function serve({ url }, response) {
    const path = normalize(url);
    response.setHeader("content-type", TYPES[extname(path)] ?? "text/plain");
    try {
        response.end(path === "/" ? PAGE : readFileSync(join(CLIENT, path)));
    } catch {
        response.writeHead(404).end();
    }
}

describe("the TypeScript client in a browser", () => {
    const cases = JSON.parse(readFileSync(CASES, "utf8"));
    const pages = createServer(serve);
    let daemon;
    let browser;
    let page;

    before(async () => {
        pages.listen(0, "127.0.0.1");
        await once(pages, "listening");
        const origin = `http://127.0.0.1:${pages.address().port}`;
        daemon = await Daemon.start({ HTTP__ORIGINS: JSON.stringify([origin]) });
        browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS });
        page = await browser.newPage();
        page.setDefaultTimeout(15_000);
        await page.goto(origin);
        await page.waitForFunction(() => window.make !== undefined);
    });

    after(async () => {
        await browser?.close();
        await daemon?.stop();
        pages.close();
    });

    for (const name of Object.keys(CALLS)) {
        test(name, () => page.evaluate(([target, name, cases]) => window.make(target, name, cases), [daemon.origin, name, cases]));
    }

    test("a stream of requests is an error", async () => {
        const error = await page.evaluate((target) => window.verify(target), daemon.origin);
        assert.deepEqual(error, ["UNIMPLEMENTED", "REQUEST_STREAM_UNSUPPORTED"]);
    });

    test("a daemon that cannot be reached is unavailable", async () => {
        assert.equal(await page.evaluate((target) => window.unreachable(target), "http://127.0.0.1:1"), "UNAVAILABLE");
    });
});
