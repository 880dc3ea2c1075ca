import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { Code, ConnectError } from "@connectrpc/connect";
import { AccelerdError, fromCall, visible } from "../src/errors.js";

/** A message with texts and messages by field number. */
function message(...fields: [number, string | Uint8Array][]): Uint8Array {
    const writer = new BinaryWriter();
    for (const [number, value] of fields) {
        writer.tag(number, WireType.LengthDelimited);
        if (typeof value === "string") writer.string(value);
        else writer.bytes(value);
    }
    return writer.finish();
}

/** An error as Connect reads it from trailers. */
function answered(code: Code, text: string, details: Record<string, Uint8Array> = {}): ConnectError {
    const error = new ConnectError(text, code, { "grpc-status": String(code) });
    error.details = Object.entries(details).map(([name, value]) => ({ type: `google.rpc.${name}`, value }));
    return error;
}

/** A duration of 1.5 s. */
const DURATION = new BinaryWriter().tag(1, WireType.Varint).int64(1).tag(2, WireType.Varint).int32(500_000_000).finish();

describe("errors that the daemon sends", () => {
    test("have the code, the message and all details", () => {
        const error = fromCall(
            answered(Code.ResourceExhausted, "full", {
                ErrorInfo: message(
                    [1, "QUEUE_FULL"],
                    [2, "accelerd"],
                    [3, message([1, "limit"], [2, "8"])],
                    [3, message([1, "asked"], [2, "9"])],
                ),
                RetryInfo: message([1, DURATION]),
                BadRequest: message([1, message([1, "limit"], [2, "too many"])], [1, message([1, "k"], [2, "too few"])]),
                ResourceInfo: message([1, "collection"], [2, "code"], [4, "does not exist"]),
                Help: message([1, "ignored"]),
            }),
            { target: "target" },
        );
        assert.ok(error instanceof AccelerdError && error instanceof Error);
        assert.equal(error.name, "AccelerdError");
        assert.equal(error.code, "RESOURCE_EXHAUSTED");
        assert.equal(error.message, "RESOURCE_EXHAUSTED: full");
        assert.equal(error.rawMessage, "full");
        assert.equal(error.reason, "QUEUE_FULL");
        assert.deepEqual(error.metadata, { limit: "8", asked: "9" });
        assert.equal(error.retryDelayMs, 1_500);
        assert.equal(error.field, "limit");
        assert.deepEqual(error.violations.at(-1), { field: "k", description: "too few" });
        assert.deepEqual(error.resource, { type: "collection", name: "code", description: "does not exist" });
        assert.equal(error.isSent, true);
    });

    test("have neither reason nor field nor delay without details", () => {
        const error = fromCall(answered(Code.NotFound, "no"), { target: "target", usesFetch: true });
        assert.deepEqual([error.reason, error.field, error.resource, error.retryDelayMs], ["", "", undefined, undefined]);
    });

    test("have no control characters in their text", () => {
        assert.equal(
            fromCall(answered(Code.NotFound, "a\u001b[2Jb\nc"), { target: "target", usesFetch: true }).message,
            "NOT_FOUND: a\\u001b[2Jb\\u000ac",
        );
        assert.equal(visible("grüße \u202e"), "grüße \\u202e");
    });

    test("keep their details when progress is added", () => {
        const error = fromCall(answered(Code.Unavailable, "draining", { ErrorInfo: message([1, "DRAINING"]) }), {
            target: "target",
            usesFetch: true,
        });
        const progressed = error.withProgress(3, 8, "points were written");
        assert.equal(progressed.message, "UNAVAILABLE: draining; 3 of 8 points were written");
        assert.deepEqual([progressed.done, progressed.reason], [3, "DRAINING"]);
    });
});

function nodeError(text: string, code: string, syscall?: string): ConnectError {
    return ConnectError.from(Object.assign(new Error(text), { code, syscall }), Code.Internal);
}

describe("errors of the connection", () => {
    test("without one are unavailable, were not sent and name the target", () => {
        for (const failed of [
            nodeError("connect ECONNREFUSED 127.0.0.1:1", "ECONNREFUSED", "connect"),
            nodeError("getaddrinfo ENOTFOUND none", "ENOTFOUND", "getaddrinfo"),
            nodeError("self-signed certificate in certificate chain", "SELF_SIGNED_CERT_IN_CHAIN"),
            nodeError("name does not match", "ERR_TLS_CERT_ALTNAME_INVALID"),
            nodeError("The session has been destroyed", "ERR_HTTP2_INVALID_SESSION"),
            new ConnectError("http/2 stream closed with error code REFUSED_STREAM (0x7)", Code.Unavailable),
        ]) {
            const error = fromCall(failed, { target: "none:7433" });
            assert.deepEqual([error.code, error.isSent], ["UNAVAILABLE", false]);
            assert.match(error.message, /no connection to none:7433: /);
        }
    });

    test("say how a daemon is started where nothing listens", () => {
        const refused = nodeError("connect ECONNREFUSED 127.0.0.1:1", "ECONNREFUSED", "connect");
        assert.match(fromCall(refused, { target: "target" }).message, /is the daemon running\? `accelerd serve` starts it$/);
    });

    test("that broke are unavailable and may have been executed", () => {
        for (const failed of [
            nodeError("read ECONNRESET", "ECONNRESET", "read"),
            new ConnectError("http/2 stream closed with error code CANCEL (0x8)", Code.Canceled),
            ConnectError.from(new TypeError("Failed to fetch")),
        ]) {
            const error = fromCall(failed, { target: "target", usesFetch: true });
            assert.deepEqual([error.code, error.isSent], ["UNAVAILABLE", true]);
            assert.match(error.message, /the connection broke/);
        }
    });

    test("of the caller's signal and of the deadline are what they are", () => {
        const broken = nodeError("read ECONNRESET", "ECONNRESET", "read");
        assert.equal(fromCall(broken, { target: "target", usesFetch: true }, AbortSignal.abort()).code, "CANCELLED");
        assert.equal(
            fromCall(new ConnectError("the operation timed out", Code.DeadlineExceeded), { target: "target", usesFetch: true }).code,
            "DEADLINE_EXCEEDED",
        );
    });

    test("are no errors of a program", () => {
        assert.equal(fromCall(ConnectError.from(new TypeError("x is not a function")), { target: "target" }).code, "UNKNOWN");
    });

    test("of the protocol keep their code", () => {
        assert.equal(
            fromCall(new ConnectError("protocol error: missing status", Code.Internal), { target: "target", usesFetch: true }).code,
            "INTERNAL",
        );
    });
});
