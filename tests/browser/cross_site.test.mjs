// Pages of other sites in Chromium, and what they reach of a daemon on loopback: nothing on any port. `run` calls this.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { chromium } from "playwright-core";
import { Daemon, FLAGS } from "./daemon.mjs";

const METHOD = "/accelerd.v1.EmbedService/ListModels";

/** A page that tries to call the daemon at a host, and shows what became of each try. */
const page = (host, ports) => `<!doctype html><pre id="out"></pre><script>
const json = { "content-type": "application/json" };
const body = JSON.stringify({ inputs: "secret" });
const tries = {
  json: port => fetch(\`http://${host}:\${port}/embed\`, { method: "POST", headers: json, body }),
  form: port => fetch(\`http://${host}:\${port}/embed\`, { method: "POST", mode: "no-cors", body }),
  blob: port => fetch(\`http://${host}:\${port}/embed\`, { method: "POST", mode: "no-cors", body: new Blob([body]) }),
  read: port => fetch(\`http://${host}:\${port}/v1/models\`),
  web: port => fetch(\`http://${host}:\${port}${METHOD}\`,
    { method: "POST", headers: { "content-type": "application/grpc-web+proto" }, body: new Uint8Array(5) }),
  grpc: port => fetch(\`http://${host}:\${port}${METHOD}\`,
    { method: "POST", headers: { "content-type": "application/grpc" }, body: new Uint8Array(5) }),
};
(async () => {
  const outcomes = {};
  for (const port of ${JSON.stringify(ports)})
    for (const [name, attempt] of Object.entries(tries))
      outcomes[\`\${name}:\${port}\`] = await attempt(port).then(a => \`\${a.type} \${a.status}\`, () => "failed");
  document.getElementById("out").textContent = JSON.stringify(outcomes);
})();
</script>`;

let browser;
let daemon;
let server;

before(async () => {
    browser = await chromium.launch({
        executablePath: process.env.CHROMIUM,
        args: [...FLAGS, "--host-resolver-rules=MAP rebound.example 127.0.0.1"],
    });
});
after(() => browser?.close());
beforeEach(async () => (daemon = await Daemon.start()));
afterEach(async () => {
    await daemon.stop();
    server?.closeAllConnections();
    server?.close();
});

/** What the page of a site with this name reaches of the daemon. */
async function outcomes(name) {
    server = createServer((_, response) =>
        response.setHeader("content-type", "text/html").end(page(name, [daemon.httpPort, daemon.grpcPort])),
    );
    await once(server.listen(0, "127.0.0.1"), "listening");
    const shown = await browser.newPage();
    await shown.goto(`http://${name}:${server.address().port}/`);
    const out = await shown.waitForFunction(() => document.getElementById("out").textContent);
    const found = JSON.parse(await out.jsonValue());
    await shown.close();
    assert.equal(Object.keys(found).length, 12);
    return new Set(Object.values(found));
}

test("a page of another origin reaches no service", async () => {
    // A response to a request without CORS is opaque: the page learns nothing of it.
    const found = await outcomes("127.0.0.1");
    assert.deepEqual(
        [...found].filter((one) => !["failed", "opaque 0"].includes(one)),
        [],
    );
    assert.deepEqual(await daemon.calls(), []);
});

test("a page whose name is rebound to loopback reaches no service", async () => {
    // The browser takes the daemon's ports for ports of the page's site.
    const found = await outcomes("rebound.example");
    assert.deepEqual(
        [...found].filter((one) => !["failed", "opaque 0"].includes(one)),
        [],
    );
    assert.deepEqual(await daemon.calls(), []);
});

test("a page on the port's own origin is refused by its host", async () => {
    // What a rebound page could do from the daemon's own port: it has no Origin to give it away, only its Host.
    const shown = await browser.newPage();
    for (const path of ["docs", "console", "v1/models"]) {
        const response = await shown.goto(`http://rebound.example:${daemon.httpPort}/${path}`);
        assert.equal(response.status(), 421);
        assert.match(await response.text(), /are not allowed/);
    }
    await shown.close();
    assert.deepEqual(await daemon.calls(), []);
});

test("a call is seen, and the page of the documentation works", async () => {
    await daemon.call("EmbedService/ListModels", {});
    assert.deepEqual(await daemon.calls(), [METHOD.slice(1)]);
    const shown = await browser.newPage();
    await shown.goto(`${daemon.origin}/docs`);
    for (const expected of ["/v1/embeddings", "/v2/rerank", "/accelerd.v1.EmbedService/Embed", "Ranks documents"]) {
        await shown.getByText(expected).first().waitFor();
    }
    await shown.getByRole("link", { name: "console" }).click();
    await shown.getByText("serving").waitFor();
    await shown.close();
});
