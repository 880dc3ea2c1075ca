/** Calls of the daemon by the JSON of its methods, on the page's own origin. */

import { signal } from "@preact/signals";

import type { Method } from "./methods";

const KEPT = "accelerd.token";

/** The token of the calls; empty for none. It lasts as long as the tab. */
export const token = signal(sessionStorage.getItem(KEPT) ?? "");

export function setToken(text: string): void {
    token.value = text;
    if (text) sessionStorage.setItem(KEPT, text);
    else sessionStorage.removeItem(KEPT);
}

/** Why a call failed, as the daemon says it. */
export class Failure extends Error {
    constructor(
        /** The status of HTTP; 0 if there was no response. */
        readonly status: number,
        readonly code: string,
        message: string,
        readonly reason = "",
        readonly field = "",
        /** When to retry, in seconds. */
        readonly retryAfter = "",
    ) {
        super(message);
    }

    static of(error: unknown): Failure {
        if (error instanceof Failure) return error;
        return new Failure(0, "INPUT", error instanceof Error ? error.message : String(error));
    }
}

interface ErrorBody {
    code?: string;
    message?: string;
    reason?: string;
    field?: string;
}

function failure(status: number, error: ErrorBody, retryAfter: string | null): Failure {
    return new Failure(status, error.code ?? "UNKNOWN", error.message ?? "", error.reason, error.field, retryAfter ?? "");
}

async function send(method: Method, body: string, type: string, signal?: AbortSignal, as = token.value): Promise<Response> {
    const headers: Record<string, string> = { "content-type": type };
    if (as) headers["authorization"] = `Bearer ${as}`;
    const request = { method: "POST", headers, body, signal: signal ?? null, redirect: "error" } as const;
    const response = await fetch(`/accelerd.v1.${method}`, request).catch((error: unknown) => {
        throw signal?.aborted ? error : new Failure(0, "UNREACHABLE", `The daemon does not answer: ${String(error)}`);
    });
    if (response.ok) return response;
    const text = await response.text();
    let error: ErrorBody = { message: text };
    try {
        error = JSON.parse(text).error ?? error;
    } catch {
        // A proxy in between may answer with something else.
    }
    throw failure(response.status, error, response.headers.get("retry-after"));
}

/** Calls a method with one response, such as `DeviceService/GetStats`. */
export async function call<T>(method: Method, request: object, signal?: AbortSignal, as?: string): Promise<T> {
    const response = await send(method, JSON.stringify(request), "application/json", signal, as);
    return response.json();
}

/** Calls a method with a stream of requests or responses. */
export async function* stream<T>(method: Method, requests: object[], signal?: AbortSignal): AsyncGenerator<T> {
    const type = requests.length === 1 ? "application/json" : "application/x-ndjson";
    const response = await send(method, requests.map((request) => JSON.stringify(request)).join("\n"), type, signal);
    // Safari has no asynchronous iteration of streams.
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    try {
        for (let part = await reader.read(); !part.done; part = await reader.read()) {
            const lines = (rest + part.value).split("\n");
            rest = lines.pop()!;
            for (const line of lines) {
                const value = JSON.parse(line);
                // The line of a failed stream has nothing else.
                if (value.error && Object.keys(value).length === 1) throw failure(200, value.error, null);
                yield value;
            }
        }
    } finally {
        void reader.cancel().catch(() => {});
    }
}
