// Errors of calls, with the details that the daemon attaches to them.

import { Code, ConnectError } from "@connectrpc/connect";
import type { ItemError } from "./generated/accelerd/v1/error_pb.js";
import { type ErrorDetails, type FieldViolation, type Resource, readDetails } from "./error_details.js";

export type { FieldViolation, Resource };

const CODES = {
    1: "CANCELLED",
    2: "UNKNOWN",
    3: "INVALID_ARGUMENT",
    4: "DEADLINE_EXCEEDED",
    5: "NOT_FOUND",
    6: "ALREADY_EXISTS",
    7: "PERMISSION_DENIED",
    8: "RESOURCE_EXHAUSTED",
    9: "FAILED_PRECONDITION",
    10: "ABORTED",
    11: "OUT_OF_RANGE",
    12: "UNIMPLEMENTED",
    13: "INTERNAL",
    14: "UNAVAILABLE",
    15: "DATA_LOSS",
    16: "UNAUTHENTICATED",
} as const;

/** The name of a gRPC status code. */
export type StatusCode = (typeof CODES)[keyof typeof CODES];

/** What an error has besides its code and message. */
export interface ErrorFields extends Partial<Readonly<ErrorDetails>> {
    /** How many texts, sources or points were done before a call in parts failed. */
    done?: number | undefined;
    /** Whether a daemon may have executed the call; default true. */
    isSent?: boolean | undefined;
    cause?: unknown;
}

/** A failed call. */
export class AccelerdError extends Error {
    override readonly name: string = "AccelerdError";
    readonly code: StatusCode;
    /** The message without the code, as the daemon sent it. */
    readonly rawMessage: string;
    /** The reason, such as MESSAGE_TOO_LARGE; empty if the daemon gave none. */
    readonly reason: string;
    /** Figures that belong to the reason. */
    readonly metadata: Readonly<Record<string, string>>;
    /** The invalid fields of the request. */
    readonly violations: readonly FieldViolation[];
    /** What does not exist, or exists already. */
    readonly resource: Resource | undefined;
    /** How long to wait before a retry, if the daemon said so. */
    readonly retryDelayMs: number | undefined;
    /** How many texts, sources or points were done before a call in parts failed. */
    readonly done: number | undefined;
    /** Whether a daemon may have executed the call: false if there was no connection, or it refused the stream. */
    readonly isSent: boolean;

    constructor(code: StatusCode, message: string, fields: ErrorFields = {}) {
        super(visible(`${code}: ${message}`), { cause: fields.cause });
        this.code = code;
        this.rawMessage = message;
        this.reason = fields.reason ?? "";
        this.metadata = fields.metadata ?? {};
        this.violations = fields.violations ?? [];
        this.resource = fields.resource;
        this.retryDelayMs = fields.retryDelayMs;
        this.done = fields.done;
        this.isSent = fields.isSent ?? true;
    }

    /** Path of the first invalid field of the request, such as `texts.values[3]`; empty if there is none. */
    get field(): string {
        return this.violations[0]?.field ?? "";
    }

    /** Whether a message exceeds a limit, so that a call in smaller parts may succeed. */
    get isTooLarge(): boolean {
        return this.reason === "MESSAGE_TOO_LARGE";
    }

    /** Returns the error of a call in parts with what was done before, such as "points were written". */
    withProgress(done: number, total: number, what: string): AccelerdError {
        return new AccelerdError(this.code, `${this.rawMessage}; ${done} of ${total} ${what}`, { ...this, done, cause: this.cause });
    }
}

/** Control characters, separators of lines and paragraphs, and those that act on the order of the text around them. */
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g;

/** Escapes control characters. Messages quote text of other callers, which would act on the terminal that shows it. */
export function visible(text: string): string {
    return text.replace(HIDDEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Returns the error of a response that violates the protocol. */
export function malformed(what: string): AccelerdError {
    return new AccelerdError("INTERNAL", `malformed response: ${what}`);
}

/** Returns the error of a call whose timeout is over before it is sent. */
export function late(): AccelerdError {
    return new AccelerdError("DEADLINE_EXCEEDED", "the timeout was over before the call was sent");
}

/** Returns the error of one item of a stream. */
export function fromItem(item: ItemError): AccelerdError {
    return new AccelerdError(statusCode(item.code), item.message);
}

function statusCode(code: number): StatusCode {
    return code in CODES ? CODES[code as keyof typeof CODES] : "UNKNOWN";
}

/** Returns the error of a call that its caller cancelled. */
export function cancelled(signal: AbortSignal | undefined): AccelerdError {
    return new AccelerdError("CANCELLED", "the caller cancelled the call", { cause: signal?.reason });
}

/** Where a call failed. */
export interface Origin {
    readonly target: string;
    /** Whether requests are those of `fetch`, which rejects with a TypeError where the connection fails. */
    readonly usesFetch?: boolean;
}

/** Returns the error of a failed call. `signal` is the caller's. */
export function fromCall(failed: unknown, { target, usesFetch = false }: Origin, signal?: AbortSignal): AccelerdError {
    if (failed instanceof AccelerdError) return failed;
    const error = ConnectError.from(failed);
    if (error.metadata.has("grpc-status")) {
        return new AccelerdError(statusCode(error.code), error.rawMessage, { ...readDetails(error), cause: failed });
    }
    if (signal?.aborted) return cancelled(signal);
    if (error.code === Code.DeadlineExceeded) return new AccelerdError("DEADLINE_EXCEEDED", "the deadline passed", { cause: failed });
    const problem = connectionProblem(error, usesFetch);
    if (problem === undefined) return new AccelerdError(statusCode(error.code), error.rawMessage, { cause: failed });
    if (problem.isSent) return new AccelerdError("UNAVAILABLE", `the connection broke: ${problem.message}`, { cause: failed });
    return new AccelerdError("UNAVAILABLE", `no connection to ${target}: ${problem.message}`, { isSent: false, cause: failed });
}

/** System calls that make a connection. */
const CONNECTING = new Set(["connect", "getaddrinfo"]);
/** Errors of certificates, of handshakes and of a session that takes no more streams. */
const NO_CONNECTION =
    /^(ERR_(SSL|TLS)_|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|HOSTNAME_MISMATCH|EPROTO$|ERR_HTTP2_(GOAWAY|INVALID)_SESSION$)/;

/** Returns what is wrong with the connection, if it is what failed. */
function connectionProblem(error: ConnectError, usesFetch: boolean): { message: string; isSent: boolean } | undefined {
    for (const cause of causes(error)) {
        // It does not say whether the request was sent.
        if (usesFetch && cause instanceof TypeError) return { message: cause.message, isSent: true };
        const { code, syscall } = cause as { code?: unknown; syscall?: unknown };
        if (typeof code !== "string") continue;
        if (CONNECTING.has(String(syscall))) return { message: `${cause.message || code}; ${RUNNING}`, isSent: false };
        return { message: cause.message || code, isSent: !NO_CONNECTION.test(code) };
    }
    const message = error.rawMessage;
    if (!message.startsWith("http/2 ") && message !== "PING timed out") return undefined;
    return { message, isSent: !message.includes("REFUSED_STREAM") };
}

const RUNNING = "is the daemon running? `accelerd serve` starts it";

function* causes(error: ConnectError): Generator<Error> {
    let cause: unknown = error.cause;
    while (cause instanceof Error) {
        yield cause;
        cause = cause.cause;
    }
}
