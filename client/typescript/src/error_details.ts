// Reads the details of a gRPC status: the messages of google/rpc/error_details.proto, by their field numbers.

import { BinaryReader } from "@bufbuild/protobuf/wire";
import type { ConnectError } from "@connectrpc/connect";

/** An invalid field of a request. */
export interface FieldViolation {
    /** Path in the request of the protocol, such as `limit` or `texts.values[3]`. */
    readonly field: string;
    readonly description: string;
}

/** A resource that an error is about. */
export interface Resource {
    /** Such as `collection` or `model`. */
    readonly type: string;
    readonly name: string;
    readonly description: string;
}

export interface ErrorDetails {
    reason: string;
    metadata: Readonly<Record<string, string>>;
    violations: readonly FieldViolation[];
    resource: Resource | undefined;
    retryDelayMs: number | undefined;
}

/** Calls `read` for each field of a message that it knows, and skips the others. */
function readFields(bytes: Uint8Array, read: (field: number, reader: BinaryReader) => boolean): void {
    const reader = new BinaryReader(bytes);
    while (reader.pos < reader.len) {
        const [field, wireType] = reader.tag();
        if (!read(field, reader)) reader.skip(wireType, field);
    }
}

/** Reads the fields of a message that are texts. */
function readTexts(bytes: Uint8Array, count: number): string[] {
    const texts: string[] = Array.from({ length: count }, () => "");
    readFields(bytes, (field, reader) => {
        if (field > count) return false;
        texts[field - 1] = reader.string();
        return true;
    });
    return texts;
}

function readErrorInfo(bytes: Uint8Array, details: ErrorDetails): void {
    readFields(bytes, (field, reader) => {
        if (field === 1) {
            details.reason = reader.string();
        } else if (field === 3) {
            const [key, value] = readTexts(reader.bytes(), 2);
            details.metadata = { ...details.metadata, [key ?? ""]: value ?? "" };
        } else {
            return false;
        }
        return true;
    });
}

/** Reads the `google.protobuf.Duration` of a RetryInfo in milliseconds. */
function readRetryInfo(bytes: Uint8Array, details: ErrorDetails): void {
    details.retryDelayMs = 0;
    readFields(bytes, (field, reader) => {
        if (field !== 1) return false;
        readFields(reader.bytes(), (part, duration) => {
            if (part > 2) return false;
            details.retryDelayMs = (details.retryDelayMs ?? 0) + (part === 1 ? Number(duration.int64()) * 1000 : duration.int32() / 1e6);
            return true;
        });
        return true;
    });
}

function readBadRequest(bytes: Uint8Array, details: ErrorDetails): void {
    readFields(bytes, (field, reader) => {
        if (field !== 1) return false;
        const [path, description] = readTexts(reader.bytes(), 2);
        details.violations = [...details.violations, { field: path ?? "", description: description ?? "" }];
        return true;
    });
}

function readResourceInfo(bytes: Uint8Array, details: ErrorDetails): void {
    const [type = "", name = "", , description = ""] = readTexts(bytes, 4);
    details.resource = { type, name, description };
}

const READERS: Record<string, (bytes: Uint8Array, details: ErrorDetails) => void> = {
    "google.rpc.ErrorInfo": readErrorInfo,
    "google.rpc.RetryInfo": readRetryInfo,
    "google.rpc.BadRequest": readBadRequest,
    "google.rpc.ResourceInfo": readResourceInfo,
};

/** Returns the details of an error that the daemon sent. */
export function readDetails(error: ConnectError): ErrorDetails {
    const details: ErrorDetails = { reason: "", metadata: {}, violations: [], resource: undefined, retryDelayMs: undefined };
    for (const detail of error.details) {
        if ("value" in detail && detail.value instanceof Uint8Array && "type" in detail) READERS[detail.type]?.(detail.value, details);
    }
    return details;
}
