import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Client } from "../src/node.js";
import { Client as BrowserClient } from "../src/browser.js";
import { checkedToken, isLocal, readTargets } from "../src/target.js";
import { checkedTimeout } from "../src/timeout.js";

const read = (target: string) => readTargets(target).map(({ scheme, path, origin }) => [scheme, path || origin]);

describe("targets", () => {
    test("are addresses with and without a scheme, and paths of sockets", () => {
        assert.deepEqual(read("localhost:7433, https://a.example"), [
            ["http", "http://localhost:7433"],
            ["https", "https://a.example"],
        ]);
        assert.deepEqual(read("http://[::1]:7433/"), [["http", "http://[::1]:7433"]]);
        assert.deepEqual(read("unix:/run/a"), [["unix", "/run/a"]]);
        assert.deepEqual(read("unix:///run/a"), [["unix", "/run/a"]]);
        assert.deepEqual(read("unix:a.sock"), [["unix", "a.sock"]]);
    });

    test("that are not are refused", () => {
        for (const wrong of [
            "",
            "unix:",
            "dns:///a:1",
            "ipv4:1.2.3.4:5",
            "ftp://a",
            "http://a:70000",
            "a:0",
            "http://a/path",
            "http://u@a",
            "a:b:c",
        ]) {
            assert.throws(() => readTargets(wrong), /target: expected host:port/, wrong);
        }
        assert.throws(() => readTargets([]), /got none/);
    });

    test("on this machine are those of loopback", () => {
        const local = ["localhost:1", "127.9.0.1:1", "http://127.1:1", "[::1]:1", "unix:/a"];
        const remote = ["a.example:1", "10.0.0.1:1", "127.0.0.1.example:1", "[::2]:1", "0.0.0.0:1"];
        assert.deepEqual(
            readTargets(local).map(isLocal),
            local.map(() => true),
        );
        assert.deepEqual(
            readTargets(remote).map(isLocal),
            remote.map(() => false),
        );
    });
});

describe("a token", () => {
    test("is sent over TLS and to this machine", () => {
        for (const target of ["localhost:1", "unix:/a", "https://a.example"])
            assert.equal(checkedToken("t", readTargets(target), false), "t");
        assert.throws(
            () => checkedToken("secret", readTargets("localhost:1,a.example:1"), false),
            (error: Error) => {
                assert.match(error.message, /refusing to send it to "a.example:1" in plaintext/);
                return !error.message.includes("secret");
            },
        );
        assert.equal(checkedToken("t", readTargets("a.example:1"), true), "t");
        assert.equal(checkedToken("", readTargets("a.example:1"), false), undefined);
        assert.throws(() => checkedToken("a b", readTargets("localhost:1"), false), /visible ASCII/);
    });
});

describe("a client", () => {
    test("refuses invalid options before a call", () => {
        assert.throws(() => new Client("localhost:1", { attempts: 0 }), /attempts: expected at least 1/);
        assert.throws(() => new Client("localhost:1", { connections: 0 }), /connections: expected at least 1/);
        assert.throws(() => new Client("localhost:1", { timeoutMs: 0 }), /timeoutMs: expected a positive/);
        assert.throws(() => new Client("localhost:1", { timeoutMs: NaN }), /timeoutMs: expected a number/);
        assert.throws(() => new Client("https://localhost:1", { tls: { cert: "a" } }), /both cert and key/);
        assert.throws(() => new Client("https://localhost:1", { tls: { ca: Buffer.from("x") } }), /expected PEM with a certificate/);
        assert.throws(() => new Client("https://localhost:1", { tls: { ca: "/none" } }), /ENOENT/);
    });

    test("reads the environment", () => {
        const before = { ...process.env };
        try {
            Object.assign(process.env, { ACCELERD_SERVER: "ftp://a" });
            assert.throws(() => new Client(), /got "ftp:\/\/a"/);
            Object.assign(process.env, { ACCELERD_SERVER: "a.example:1", ACCELERD_TOKEN: "t" });
            assert.throws(() => new Client(), /refusing to send it/);
            Object.assign(process.env, { ACCELERD_SERVER: "https://a.example:1", ACCELERD_TLS_CA: "/none" });
            assert.throws(() => new Client(), /ENOENT/);
        } finally {
            process.env = before;
        }
    });

    test("that is closed makes no calls", async () => {
        const client = new Client("localhost:1");
        client.close();
        await assert.rejects(client.devices(), /the client is closed/);
    });

    test("of a browser has no sockets and streams no requests", async () => {
        assert.throws(() => new BrowserClient("unix:/a"), /expected http/);
        const client = new BrowserClient("http://localhost:1");
        await assert.rejects(client.verify("", ""), { code: "UNIMPLEMENTED", reason: "REQUEST_STREAM_UNSUPPORTED" });
    });
});

test("a timeout of more than a day is none", () => {
    assert.deepEqual([0, 86_400_000, 86_400_001, Infinity].map(checkedTimeout), [0, 86_400_000, Infinity, Infinity]);
    for (const wrong of [-1, NaN, "1" as unknown as number]) assert.throws(() => checkedTimeout(wrong), RangeError);
});
