// Streams of messages that are serialized already, over HTTP/2. Connect serializes and copies a message several times before it is sent.

import { type DescMessage, fromBinary, type MessageShape } from "@bufbuild/protobuf";
import {
    createDeadlineSignal,
    createLinkedAbortController,
    createMethodUrl,
    pipe,
    transformSplitEnvelope,
    type UniversalClientFn,
} from "@connectrpc/connect/protocol";
import { requestHeader, validateResponse, validateTrailer } from "@connectrpc/connect/protocol-grpc";
import type { OpenEncoded } from "./connections.js";

const MAX_RESPONSE_BYTES = 0xffff_ffff;

/** Returns a function that opens such streams. */
export function encodedStreams(origin: string, client: UniversalClientFn): OpenEncoded {
    return async (method, signal, timeoutMs, headers, messages) => {
        const timeout = timeoutMs === 0 ? undefined : timeoutMs;
        const deadline = createDeadlineSignal(timeout);
        const linked = createLinkedAbortController(signal, deadline.signal);
        linked.signal.addEventListener("abort", deadline.cleanup);
        const response = await client({
            url: createMethodUrl(origin, method),
            method: "POST",
            header: requestHeader(true, timeout, headers),
            body: frames(messages),
            signal: linked.signal,
        });
        const { foundStatus, headerError } = validateResponse(response.status, response.header);
        if (headerError !== undefined) throw headerError;
        const envelopes = pipe(response.body, transformSplitEnvelope(MAX_RESPONSE_BYTES));
        return parsed(envelopes, method.output, () => foundStatus || validateTrailer(response.trailer, response.header));
    };
}

async function* parsed<O extends DescMessage>(
    envelopes: AsyncIterable<{ data: Uint8Array }>,
    output: O,
    checkStatus: () => unknown,
): AsyncGenerator<MessageShape<O>, void, undefined> {
    for await (const { data } of envelopes) yield fromBinary(output, data);
    checkStatus();
}

/** Yields the frames of gRPC: a byte for no compression, the length in four bytes, and the message. */
async function* frames(messages: AsyncIterable<readonly Uint8Array[]>): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const chunks of messages) {
        const prefix = new Uint8Array(5);
        const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
        new DataView(prefix.buffer).setUint32(1, length);
        const [head = new Uint8Array(), ...rest] = chunks;
        const first = new Uint8Array(prefix.length + head.length);
        first.set(prefix);
        first.set(head, prefix.length);
        yield first;
        for (const chunk of rest) if (chunk.length > 0) yield chunk;
    }
}
