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
const PACKAGES = ["@bufbuild/protobuf", "@connectrpc/connect", "@connectrpc/connect-web"];

const file = (target) => (typeof target === "string" ? target : file(target.import ?? target.default));

/** Where the exports of a package are, as a bundler finds them. */
function exportsOf(name, folder) {
    const entries = JSON.parse(readFileSync(join(CLIENT, folder, "package.json"), "utf8")).exports;
    return Object.entries(entries).map(([path, targets]) => [join(name, path), join("/", folder, file(targets))]);
}

const imports = Object.fromEntries(
    [["accelerd", ""], ...PACKAGES.map((name) => [name, `node_modules/${name}`])].flatMap(([name, folder]) => exportsOf(name, folder)),
);
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
        const loaded = page.waitForFunction(() => window.make !== undefined);
        const failed = page.waitForEvent("pageerror").then((error) => Promise.reject(error));
        await page.goto(origin);
        await Promise.race([loaded, failed]);
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
        const closed = createServer().listen(0, "127.0.0.1");
        await once(closed, "listening");
        const target = `http://127.0.0.1:${closed.address().port}`;
        closed.close();
        assert.equal(await page.evaluate((target) => window.unreachable(target), target), "UNAVAILABLE");
    });
});
