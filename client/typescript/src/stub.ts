// Generated services, whose calls have the client's token, deadline and retries.

import type {
    DescMessage,
    DescMethodBiDiStreaming,
    DescMethodClientStreaming,
    DescMethodServerStreaming,
    DescMethodUnary,
    DescService,
    MessageInitShape,
    MessageShape,
} from "@bufbuild/protobuf";
import { type CallOptions, type Caller, iterate } from "./caller.js";
import { malformed } from "./errors.js";
import type { Batches } from "./resume.js";

type Responses<O extends DescMessage> = AsyncGenerator<MessageShape<O>, void, undefined>;

/** The methods of a service. A call with one request is retried, a stream until its first response; streams of requests are not. */
export type Stub<S extends DescService> = { readonly [P in keyof S["method"]]: StubMethod<S["method"][P]> };

type StubMethod<M> =
    M extends DescMethodUnary<infer I, infer O>
        ? (request: MessageInitShape<I>, options?: CallOptions) => Promise<MessageShape<O>>
        : M extends DescMethodServerStreaming<infer I, infer O>
          ? (request: MessageInitShape<I>, options?: CallOptions) => Responses<O>
          : M extends DescMethodClientStreaming<infer I, infer O>
            ? (requests: Batches<MessageInitShape<I>>, options?: CallOptions) => Promise<MessageShape<O>>
            : M extends DescMethodBiDiStreaming<infer I, infer O>
              ? (requests: Batches<MessageInitShape<I>>, options?: CallOptions) => Responses<O>
              : never;

export function stub<S extends DescService>(caller: Caller, service: S): Stub<S> {
    return Object.fromEntries(service.methods.map((method) => [method.localName, call(caller, method as Method)])) as Stub<S>;
}

type Request = MessageInitShape<DescMessage>;

/** The union of DescMethod, by its kinds. */
type Method = DescMethodUnary | DescMethodServerStreaming | DescMethodClientStreaming | DescMethodBiDiStreaming;

function call(caller: Caller, method: Method): (request: never, options?: CallOptions) => unknown {
    switch (method.methodKind) {
        case "unary":
            return (request: Request, options = {}) => caller.call(method, request, caller.context(options));
        case "server_streaming":
            return (request: Request, options = {}) => caller.retried(method, () => iterate([request]), caller.context(options));
        case "client_streaming":
            return (requests: Batches<Request>, options = {}) => only(caller.responses(method, iterate(requests), caller.context(options)));
        case "bidi_streaming":
            return (requests: Batches<Request>, options = {}) =>
                caller.responses(method, iterate(requests), caller.context(options, Infinity));
    }
}

async function only<T>(responses: AsyncIterable<T>): Promise<T> {
    const found: T[] = [];
    for await (const response of responses) found.push(response);
    const [response] = found;
    if (response === undefined || found.length > 1) throw malformed(`${found.length} responses, expected one`);
    return response;
}
