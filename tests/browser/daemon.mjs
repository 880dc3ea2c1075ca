// A daemon of ACCELERD_BIN on free ports of loopback, as tests/loopback.py starts it, and calls of its methods.

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { createInterface } from "node:readline";

async function address() {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address();
    server.close();
    return `127.0.0.1:${port}`;
}

/** Chromium starts as root, and looks for nothing on the network. */
export const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"];

export class Daemon {
    static async start(settings = {}) {
        const daemon = new Daemon();
        const names = ["SERVER__LISTEN", "SERVER__ADMIN_LISTEN", "SERVER__HEALTH_LISTEN", "HTTP__LISTEN"];
        const given = { BACKEND__KIND: "cpu", DRAIN__ENDPOINT_DELAY: "0s", ...settings };
        for (const name of names) given[name] = await address();
        const env = { ...process.env };
        for (const [name, value] of Object.entries(given)) env[`ACCELERD__${name}`] = value;
        daemon.origin = `http://${given.HTTP__LISTEN}`;
        daemon.admin = `http://${given.SERVER__ADMIN_LISTEN}`;
        [daemon.httpPort, daemon.grpcPort] = [given.HTTP__LISTEN, given.SERVER__LISTEN].map((one) => one.split(":")[1]);
        daemon.process = spawn(process.env.ACCELERD_BIN, ["serve"], { env, stdio: ["ignore", "ignore", "pipe"] });
        daemon.ended = once(daemon.process, "exit");
        const lines = createInterface({ input: daemon.process.stderr });
        const said = [];
        await new Promise((resolve, reject) => {
            lines.on("line", (line) => {
                said.push(line);
                if (/\bserving\b/.test(line)) resolve();
            });
            void daemon.ended.then(() => reject(new Error(said.join("\n"))));
        });
        return daemon;
    }

    async stop() {
        this.process.kill();
        await this.ended;
    }

    /** The methods that were called. */
    async calls() {
        const metrics = await (await fetch(`${this.admin}/metrics`)).text();
        return [...metrics.matchAll(/^accelerd_request_duration_seconds_count{.*method="([^"]*)"/gm)].map(([, method]) => method);
    }

    async call(method, request) {
        const headers = { "content-type": "application/json" };
        const response = await fetch(`${this.origin}/accelerd.v1.${method}`, { method: "POST", headers, body: JSON.stringify(request) });
        if (!response.ok) throw new Error(await response.text());
        return response.json();
    }
}

/** A token, and its hash for the file of principals. */
export function createToken() {
    const text = execFileSync(process.env.ACCELERD_BIN, ["token", "create"], { encoding: "utf8" });
    const hash = /sha256:\w+/.exec(text)[0];
    const token = text.replace(hash, "").match(/[\w-]{20,}/)[0];
    return { token, hash };
}
