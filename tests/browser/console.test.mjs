// Chromium drives the console of a live daemon. `run` calls this.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, beforeEach, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { createToken, Daemon, FLAGS } from "./daemon.mjs";

const AXE = readFileSync(fileURLToPath(new URL("node_modules/axe-core/axe.min.js", import.meta.url)), "utf8");

/** A page of any length has fewer elements than this. */
const MOST_ELEMENTS = 2500;
const MARKUP = `<img src=x onerror="window.harmed = 1"><b>bold</b>`;

let browser;
let daemon;
let context;
let page;
/** What the page asked for, and what it said on its console. */
let requests;
let complaints;

before(async () => {
    daemon = await Daemon.start();
    browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS });
    await fill();
});

after(async () => {
    await browser?.close();
    await daemon?.stop();
});

async function open(origin, size = { width: 1440, height: 900 }) {
    await context?.close();
    context = await browser.newContext({ viewport: size, reducedMotion: "reduce" });
    page = await context.newPage();
    page.setDefaultTimeout(15_000);
    requests = [];
    complaints = [];
    page.on("request", (request) => requests.push(request.url()));
    page.on("pageerror", (error) => complaints.push(String(error)));
    // A call that fails is an error of the network, which the browser reports too.
    page.on(
        "console",
        (message) => message.type() === "error" && !/^Failed to load resource/.test(message.text()) && complaints.push(message.text()),
    );
    await page.goto(`${origin}/console`);
}

beforeEach(() => open(daemon.origin));

afterEach(async () => {
    assert.equal(await page.evaluate(() => window.harmed), undefined, "no markup became part of the page");
    assert.deepEqual(complaints, [], "neither the policy nor the script complained");
    const { origin } = new URL(page.url());
    assert.deepEqual(
        requests.filter((url) => new URL(url).origin !== origin && !url.startsWith("blob:")),
        [],
        "no request left the origin",
    );
});

const COLLECTIONS = 10_000;
const HITS = 16_384;

/** Collections to list, and one with points to search. */
async function fill() {
    const call = (request) => daemon.call("SimilarityService/CreateCollection", request);
    await call({ name: "functions", model: "builtin", textField: "text" });
    await call({ name: "many", dimensions: 2 });
    const texts = ["Open a socket and connect it", "Sort a list of numbers", `Open ${MARKUP}`, "Parse a date"];
    await daemon.call("SimilarityService/Upsert", {
        collection: "functions",
        ids: { numbers: ["1", "2", "3", "4"] },
        texts: { values: texts },
        payloads: texts.map((text, at) => ({
            fields: { text: { stringValue: text }, [`size<i>`]: { intValue: String(at) }, lines: { intValue: String(at) } },
        })),
    });
    const data = Buffer.from(Float32Array.from({ length: 2 * HITS }, (_, at) => 1 + (at % 97)).buffer).toString("base64");
    await daemon.call("SimilarityService/Upsert", {
        collection: "many",
        ids: { numbers: Array.from({ length: HITS }, (_, at) => String(at)) },
        vectors: { dtype: "DTYPE_F32", shape: [String(HITS), "2"], data },
    });
}

const go = (view) => page.evaluate((hash) => (location.hash = hash), `#/${view}`);
const button = (name, within = page) => within.getByRole("button", { name, exact: true });
const textbox = (name) => page.getByRole("textbox", { name, exact: true });
const elements = () => page.evaluate(() => document.querySelectorAll("*").length);

/** Asserts that axe finds nothing in the page, light and dark. */
async function assertAccessible() {
    await page.evaluate(AXE);
    for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
        const { violations } = await page.evaluate(() => axe.run());
        const found = violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.target} ${node.failureSummary}`));
        assert.deepEqual(found, [], colorScheme);
    }
}

/** Each view, and what brings it to show something. */
const VIEWS = {
    async overview() {
        await go("overview");
        await page.getByRole("group", { name: "Lanes" }).getByRole("rowheader", { name: "embed", exact: true }).waitFor();
    },
    async collections() {
        await go("collections/functions");
        await page.getByLabel("Query").fill("open a socket");
        await button("Search").click();
        const hits = page.getByRole("listbox", { name: "Hits" });
        await hits.press("ArrowDown");
        await page.getByRole("region", { name: "Point 1" }).waitFor();
    },
    async parse() {
        await go("parse");
        await button("Parse").click();
        await page.getByRole("tree").waitFor();
    },
    async kernels() {
        await go("kernels");
        await button("Translate").click();
        await button("Run").click();
        await page.getByText("Threads ran for").waitFor();
        await button("Time it").click();
        await page.getByText("Median").waitFor();
    },
    async verify() {
        await go("verify");
        await button("Verify").click();
        await page.locator(".verdict").waitFor();
    },
    async models() {
        await go("models");
        await button("Tokenize").click();
        await page.getByRole("list", { name: "Tokens" }).waitFor();
    },
    async graphs() {
        await go("graphs");
        await button("Run").click();
        await page.getByRole("list", { name: "Elements of probabilities" }).waitFor();
    },
};

describe("each view", () => {
    for (const [name, show] of Object.entries(VIEWS)) {
        test(`${name} has no findings of axe, light and dark, and fits a narrow window`, async () => {
            await show();
            await assertAccessible();
            await page.setViewportSize({ width: 390, height: 844 });
            const [width, shown] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
            assert.ok(width <= shown, `the page is ${width} pixels wide in a window of ${shown}`);
        });
    }
});

describe("overview", () => {
    test("counts requests as they come", async () => {
        await VIEWS.overview();
        const requests = page
            .getByRole("group", { name: "Lanes" })
            .getByRole("row", { name: /^embed/ })
            .getByRole("cell")
            .nth(3);
        const before = Number((await requests.textContent()).replace(",", ""));
        for (let at = 0; at < 3; at += 1) await daemon.call("EmbedService/Embed", { texts: { values: ["a"] } });
        await page.waitForFunction(
            ([row, expected]) => Number(row.textContent.replace(",", "")) >= expected,
            [await requests.elementHandle(), before + 3],
        );
        await page.getByText("serving").waitFor();
    });

    test("stops to sample while the page is hidden", async () => {
        const watches = () => requests.filter((url) => url.endsWith("/Watch")).length;
        await VIEWS.overview();
        const hide = (hidden) =>
            page.evaluate((hidden) => {
                Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
                document.dispatchEvent(new Event("visibilitychange"));
            }, hidden);
        const ended = page.waitForEvent("requestfailed", (request) => request.url().endsWith("/Watch"));
        await hide(true);
        await ended;
        assert.equal(watches(), 1);
        await Promise.all([page.waitForRequest(/Watch$/), hide(false)]);
    });
});

describe("a daemon that goes away", () => {
    test("is said, and found again", async () => {
        await page.getByText("serving").waitFor();
        await page.route("**/Watch", (route) => route.abort());
        await page.reload();
        await page.getByText("lost", { exact: true }).waitFor();
        assert.match(await page.getByRole("alert").textContent(), /UNREACHABLE.*does not answer/s);
        await page.unroute("**/Watch");
        await page.getByText("serving").waitFor();
        await page.getByRole("alert").waitFor({ state: "detached" });
    });
});

describe("collections", () => {
    test("marks the words of the query, and shows the payload of a hit", async () => {
        await VIEWS.collections();
        const first = page.getByRole("option", { name: /Open a socket/ });
        assert.deepEqual(await first.locator("mark").allTextContents(), ["Open", "a", "socket"]);
        assert.match(await page.getByRole("region", { name: "Point 1" }).textContent(), /lines0/);
    });

    test("filters points, and says what is wrong with a filter", async () => {
        await go("collections/functions");
        await page.getByLabel("Rank").selectOption("All points");
        await page.getByLabel("Filter").fill("lines >= 1, lines != 2");
        await button("Show").click();
        await page.getByRole("heading", { name: "Points 2" }).waitFor();
        assert.equal(await page.getByRole("listbox", { name: "Hits" }).getByRole("option").count(), 2);
        await page.getByLabel("Filter").fill("lines ~ 1");
        await button("Show").click();
        assert.match(await page.getByRole("alert").textContent(), /expected FIELD = VALUE/);
    });

    test("shows an error of the daemon as it is", async () => {
        await go("collections/functions");
        await page.getByLabel("Hits").fill("20000");
        await page.getByLabel("Hits").evaluate((input) => (input.max = "30000"));
        await page.getByLabel("Query").fill("a");
        await button("Search").click();
        const said = await page.getByRole("alert").textContent();
        assert.match(said, /INVALID_ARGUMENT.*HTTP 400.*16384/s);
    });

    test("shows markup as text", async () => {
        await go("collections/functions");
        await page.getByLabel("Query").fill("open");
        await button("Search").click();
        const hit = page.getByRole("option", { name: /onerror/ });
        await hit.click();
        assert.ok((await page.getByRole("region", { name: "Point 3" }).textContent()).includes(MARKUP));
        assert.equal(await page.locator("img, main b").count(), 0);
    });

    test("a name with markup is text, in the list, the title and the message", async () => {
        const answer = {
            collections: [
                {
                    name: MARKUP,
                    dimensions: 2,
                    metric: "METRIC_DOT",
                    storage: "DTYPE_F32",
                    model: "<i>",
                    damage: [MARKUP],
                    pointCount: "1",
                    textField: "",
                },
            ],
        };
        await page.route("**/ListCollections", (route) => route.fulfill({ json: answer }));
        await go("collections");
        await page.getByRole("option").click();
        await page.getByRole("heading", { name: "onerror" }).waitFor();
        await page.getByLabel("Query").fill(MARKUP);
        await button("Search").click();
        assert.match(await page.getByRole("alert").textContent(), /NOT_FOUND|INVALID_ARGUMENT/);
        assert.equal(await page.locator("img, main b").count(), 0);
    });

    test("16,384 hits are few elements", async () => {
        await go("collections/many");
        await page.getByLabel("Id of a point").fill("5");
        await page.getByLabel("Hits").fill(String(HITS));
        await button("Search").click();
        const hits = page.getByRole("listbox", { name: "Hits" });
        await hits.press("End");
        await hits.getByText(String(HITS), { exact: true }).first().waitFor();
        assert.ok((await elements()) < MOST_ELEMENTS);
        assert.equal(await hits.getByRole("option").first().getAttribute("aria-setsize"), String(HITS));
    });

    test("10,000 collections are few elements, and found by their names", async () => {
        const one = (await daemon.call("SimilarityService/GetCollection", { name: "many" })).collection;
        const collections = Array.from({ length: COLLECTIONS }, (_, at) => ({ ...one, name: `tenant-${String(at).padStart(5, "0")}` }));
        await page.route("**/ListCollections", (route) => route.fulfill({ json: { collections } }));
        await go("collections");
        await page.getByText("10,000 of 10,000").waitFor();
        const list = page.getByRole("listbox", { name: "Collections" });
        await list.press("End");
        await list.getByRole("option", { name: /tenant-09999/, selected: true }).waitFor();
        assert.ok((await elements()) < MOST_ELEMENTS);
        await page.getByLabel("Name contains").fill("0424");
        await page.getByText("11 of 10,000").waitFor();
        assert.equal(await list.getByRole("option").count(), 11);
    });
});

describe("parse", () => {
    const source = () => page.getByLabel("Python source");

    test("a key moves in the tree, and the source of the node is marked", async () => {
        await go("parse");
        await source().fill("é = 1\nx += f(größe)\n");
        await button("Parse").click();
        const tree = page.getByRole("tree");
        for (const key of ["ArrowDown", "ArrowLeft", "ArrowDown", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown"])
            await tree.press(key);
        const active = page.locator(`[id="${await tree.getAttribute("aria-activedescendant")}"]`);
        assert.match(await active.textContent(), /args.*Name.*größe load/);
        assert.equal(await active.getAttribute("aria-level"), "3");
        assert.equal(await page.locator(".behind mark").textContent(), "größe");
        await page.getByRole("tab", { name: /Tree/ }).press("ArrowRight");
        const tokens = page.getByRole("listbox", { name: "Tokens" });
        await tokens.press("ArrowDown");
        assert.match(await tokens.getByRole("option", { selected: true }).textContent(), /name.*é/);
        await page.getByRole("tab", { name: /Tokens/ }).press("End");
        await page.getByText("No functions, classes or imports.").waitFor();
    });

    test("a syntax error is said where it is", async () => {
        await go("parse");
        await source().fill("x = 1\nif x\n    y\n");
        await source().press("Control+Enter");
        assert.match(await page.getByRole("alert").textContent(), /SyntaxError.*line 2.*expected ':'/s);
        assert.equal(await page.locator(".behind mark").count(), 1);
    });

    test("markup is text", async () => {
        await go("parse");
        await source().fill(`x = '''${MARKUP}'''\n`);
        await button("Parse").click();
        await page.getByRole("treeitem", { name: /onerror/ }).waitFor();
        assert.equal(await page.locator("img, main b").count(), 0);
    });

    test("a tree of 100,000 nodes is few elements", async () => {
        await go("parse");
        // Typing so many lines takes the browser minutes.
        await source().evaluate((area) => {
            area.value = "x = f(y)\n".repeat(20_000);
            area.dispatchEvent(new Event("input"));
        });
        await button("Parse").click();
        await page.getByRole("tab", { name: /Tree.*100,000/ }).waitFor();
        assert.ok((await elements()) < MOST_ELEMENTS);
        await button("Open all").click();
        const tree = page.getByRole("tree");
        await tree.press("End");
        assert.match(await page.getByRole("treeitem", { selected: true }).textContent(), /Name.*y load/);
        assert.ok((await elements()) < MOST_ELEMENTS);
        await page.getByRole("tab", { name: /Tokens.*120,000/ }).click();
        await page.getByRole("listbox", { name: "Tokens" }).press("End");
        await page.getByRole("option", { name: /^119999/ }).waitFor();
        assert.ok((await elements()) < MOST_ELEMENTS);
    });
});

describe("kernels", () => {
    test("translates, runs and times a kernel", async () => {
        await go("kernels");
        await page.getByLabel("Source of the kernels").fill("def twice(x: float) -> float:\n    return 2.0 * x\n");
        await button("Translate").click();
        assert.match(await page.getByRole("region", { name: "twice.cu" }).textContent(), /__global__/);
        await page.getByRole("tab", { name: "twice.wasm" }).click();
        assert.match(await page.getByRole("region", { name: "twice.wasm" }).textContent(), /^000000 {2}00 61 73 6d/);
        await page.getByLabel("x: f64[:]").fill("[1, 2.5, -3]");
        await button("Run").click();
        const result = page.getByRole("list", { name: "Elements of result" });
        assert.match(await result.textContent(), /25-6/);
        await button("Time it").click();
        assert.match(await page.locator(".timed").textContent(), /Verdict\s*(passed|implausible time)/);
        await button("Refresh").click();
        await page.getByRole("group", { name: "Compiled kernels" }).getByRole("rowheader", { name: "twice" }).waitFor();
    });

    test("says where a source is no kernel, and where a kernel faults", async () => {
        await go("kernels");
        const source = page.getByLabel("Source of the kernels");
        await source.fill("def f(x: int) -> int:\n    return x +\n");
        await button("Translate").click();
        assert.match(await page.getByRole("alert").textContent(), /syntax.*line 2/);
        await source.fill("def f(x: int) -> int:\n    return 1 // x\n");
        await button("Translate").click();
        await page.getByLabel("x: i64[:]").fill("[1, 0]");
        await button("Run").click();
        assert.match(await page.getByRole("alert").textContent(), /division by zero.*line 2.*thread 1/);
    });
});

describe("verify", () => {
    test("equal functions are equal, and others have counterexamples", async () => {
        await go("verify");
        await textbox("Reference").fill("def f(x: int) -> int:\n    return x // 2\n");
        await textbox("Subject").fill("def f(x: int) -> int:\n    return x >> 1\n");
        await textbox("Cases").fill("500");
        await page.getByLabel("Ranges of inputs").fill("x -100 100");
        await button("Verify").click();
        await page.getByText("Equal").waitFor();
        await textbox("Subject").fill("def f(x: int) -> int:\n    return int(x / 2)\n");
        await button("Verify").click();
        await page.getByText("Different").waitFor();
        const row = page.getByRole("group", { name: "Counterexamples" }).getByRole("row").nth(1);
        assert.match(await row.textContent(), /x = -1.*result = 0.*result = -1/);
    });

    test("takes a module of WebAssembly", async () => {
        const translated = await daemon.call("KernelService/Translate", {
            source: "def f(x: float) -> float:\n    return x\n",
            targets: ["KERNEL_TARGET_WASM"],
        });
        assert.equal(translated.kernels.length, 1);
        await go("verify");
        await textbox("Reference").fill("def f(x: float) -> float:\n    return x\n");
        // (func (export "f") (param f64) (result f64) local.get 0)
        const module = "0061736d01000000010601" + "60017c017c" + "03020100" + "07050101660000" + "0a0601040020000b";
        await page
            .getByLabel("WebAssembly module")
            .setInputFiles({ name: "f.wasm", mimeType: "application/wasm", buffer: Buffer.from(module, "hex") });
        await button("Verify").click();
        await page.getByText("Equal").waitFor();
    });
});

describe("models and graphs", () => {
    test("a model shows the tokens of a text", async () => {
        await VIEWS.models();
        await page.getByRole("rowheader", { name: "builtin" }).waitFor();
        assert.match(await page.getByRole("list", { name: "Tokens" }).textContent(), /def/);
    });

    test("a graph is drawn, grows and runs", async () => {
        await go("graphs");
        await textbox("Graph").fill(
            '{"inputs": {"x": [[1, 2], [3, 4]]}, "nodes": [{"name": "y", "op": "add", "inputs": ["x"], "attributes": {"other": 1.5}}]}',
        );
        await textbox("Operation").fill("sum");
        await textbox("Reads").fill("y");
        await textbox("Name").fill("total");
        await button("Add node").click();
        await page.getByText("2 operations, 1 inputs").waitFor();
        assert.deepEqual(await page.locator(".drawing title").allTextContents(), ["x", "y: add", "total: sum"]);
        await button("Run").click();
        assert.match(await page.locator(".tensor").textContent(), /total f32 \[\]\s*16/);
        await textbox("Graph").fill('{"inputs": {}, "nodes": [{"name": "y", "op": "nope", "inputs": []}]}');
        await button("Run").click();
        assert.match(await page.getByRole("alert").textContent(), /INVALID_ARGUMENT.*nope/s);
        await textbox("Graph").fill("{");
        assert.match(await page.getByRole("alert").first().textContent(), /JSON/);
    });
});

describe("keyboard", () => {
    test("reaches the views, and skips what all of them have", async () => {
        await page.keyboard.press("Tab");
        assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to content");
        await page.keyboard.press("Enter");
        assert.equal(await page.evaluate(() => document.activeElement.tagName), "H1");
        await page.getByRole("link", { name: "Parse" }).press("Enter");
        await page.getByRole("heading", { name: "Parse", level: 1 }).waitFor();
        assert.equal(await page.evaluate(() => document.activeElement.textContent), "Parse", "the new view is read");
        assert.equal(await page.title(), "Parse — accelerd");
    });
});

describe("tokens", () => {
    const { token, hash } = createToken();
    let guarded;

    before(async () => {
        const principals = join(mkdtempSync(join(tmpdir(), "console-")), "principals.toml");
        writeFileSync(principals, `[[principal]]\nname = "reader"\ntokens = ["${hash}"]\nrole = "read"\ncollections = ["open-*"]\n`);
        guarded = await Daemon.start({ AUTH__PRINCIPALS: principals });
    });
    after(() => guarded?.stop());
    beforeEach(() => open(guarded.origin));

    test("a wrong token is refused and said, and a right one lasts as long as the tab", async () => {
        await page.getByText("refused").waitFor();
        assert.match(await page.getByRole("alert").first().textContent(), /UNAUTHENTICATED/);
        const signIn = async (text) => {
            await page.getByLabel("Token").fill(text);
            await button("Sign in", page.getByRole("form", { name: "Sign in" })).click();
        };
        await signIn("acl_wrong");
        await page.getByRole("alert").filter({ hasText: "HTTP 401" }).waitFor();
        await assertAccessible();
        assert.equal(await page.evaluate(() => sessionStorage.length), 0, "a token that is refused is not kept");
        await signIn(token);
        await page.getByText("serving").waitFor();
        assert.equal(await page.getByRole("form", { name: "Sign in" }).count(), 0);
        assert.equal(await page.evaluate(() => localStorage.length), 0);
        assert.ok(requests.every((url) => !url.includes(token)));
        await page.reload();
        await page.getByText("serving").waitFor();
        await button("Sign out").click();
        await page.getByText("refused").waitFor();
        assert.equal(await page.evaluate(() => sessionStorage.length), 0);
    });
});
