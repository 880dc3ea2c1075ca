// Streams of numbered batches: EmbedStream, ParseStream and UpsertStream, or a unary call for each batch where requests cannot be streamed.

import type { DescMessage, DescMethodBiDiStreaming, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type { CallContext, Caller } from "./caller.js";
import { AccelerdError, fromItem, malformed } from "./errors.js";
import type { ItemError } from "./generated/accelerd/v1/error_pb.js";
import type { Init } from "./init.js";
import { type Batches, Input, SentMessages } from "./resume.js";

/** A response of such a stream. */
type Response = { sequence: bigint; result: { case: string | undefined; value?: unknown } };

/** The methods for a batch, and the field of the stream's messages that has its request and its response. */
export interface BatchMethods<I extends DescMessage, O extends DescMessage, SI extends DescMessage, SO extends DescMessage> {
    readonly stream: DescMethodBiDiStreaming<SI, SO>;
    readonly unary: DescMethodUnary<I, O>;
    readonly field: string;
    /** Whether a batch may replace the effects of an earlier one. */
    readonly isOrdered: boolean;
    /** Serializes a message of the stream as chunks, if that saves copies of large arrays. */
    readonly encode?: (sequence: number, request: Init<I>) => readonly Uint8Array[];
}

/** The outcome of a batch: a value or an error. */
export type Outcome<T> =
    | { readonly sequence: number; readonly value: T; readonly error?: undefined }
    | { readonly sequence: number; readonly value?: undefined; readonly error: AccelerdError };

/**
 * Iterates over the outcomes of batches. After a lost connection, or the drain of a daemon, batches without an outcome are sent to the next
 * one.
 */
export function batches<I extends DescMessage, O extends DescMessage, SI extends DescMessage, SO extends DescMessage>(
    caller: Caller,
    methods: BatchMethods<I, O, SI, SO>,
    requests: Batches<Init<I>>,
    context: CallContext,
): AsyncGenerator<Outcome<MessageShape<O>>, void, undefined> {
    const run = caller.connections.canStreamRequests ? resumed : oneByOne;
    return run(caller, methods, requests, context);
}

async function* oneByOne<I extends DescMessage, O extends DescMessage, SI extends DescMessage, SO extends DescMessage>(
    caller: Caller,
    { unary }: BatchMethods<I, O, SI, SO>,
    requests: Batches<Init<I>>,
    context: CallContext,
): AsyncGenerator<Outcome<MessageShape<O>>, void, undefined> {
    let sequence = 0;
    for await (const request of requests) {
        yield await caller.call(unary, request as MessageInitShape<I>, context).then(
            (value) => ({ sequence, value }),
            (error: unknown) => ({ sequence, error: itemError(error, context) }),
        );
        sequence += 1;
    }
}

/** Returns the error of a batch. Throws what would end a stream. */
function itemError(error: unknown, { signal }: CallContext): AccelerdError {
    const endsStream =
        signal?.aborted || !(error instanceof AccelerdError) || error.code === "DEADLINE_EXCEEDED" || error.code === "UNAVAILABLE";
    if (endsStream) throw error;
    return error;
}

async function* resumed<I extends DescMessage, O extends DescMessage, SI extends DescMessage, SO extends DescMessage>(
    caller: Caller,
    methods: BatchMethods<I, O, SI, SO>,
    requests: Batches<Init<I>>,
    context: CallContext,
): AsyncGenerator<Outcome<MessageShape<O>>, void, undefined> {
    const attempts = caller.attempts(context, true);
    const { stream, field, isOrdered, encode } = methods;
    const sent = new SentMessages<MessageInitShape<SI> | readonly Uint8Array[]>(isOrdered);
    const input = new Input(requests);
    const make =
        encode ??
        ((sequence: number, request: Init<I>) => ({ sequence: BigInt(sequence), [field]: request }) as unknown as MessageInitShape<SI>);
    try {
        for (;;) {
            const outgoing = new Outgoing(input, sent, make);
            const responses =
                encode === undefined
                    ? caller.responses(stream, outgoing as AsyncIterable<MessageInitShape<SI>>, context)
                    : caller.encodedResponses(stream, outgoing as AsyncIterable<readonly Uint8Array[]>, context);
            try {
                for await (const message of responses) {
                    attempts.progressed();
                    const response = message as unknown as Response;
                    if (sent.answered(Number(response.sequence))) yield outcome(response);
                }
                if (sent.isComplete) return;
                throw malformed("the stream ended before its last request was answered");
            } catch (problem) {
                if (outgoing.failure !== undefined) throw outgoing.failure.reason;
                if (!(problem instanceof AccelerdError)) throw problem;
                await caller.retry(attempts, problem, context);
            }
        }
    } finally {
        input.close();
    }
}

function outcome<T>({ sequence, result }: Response): Outcome<T> {
    const at = Number(sequence);
    if (result.value === undefined) throw malformed(`no result of batch ${at}`);
    return result.case === "error"
        ? { sequence: at, error: fromItem(result.value as ItemError) }
        : { sequence: at, value: result.value as T };
}

/** The requests of one call: those to send again, then those that follow. They end when another call begins. */
class Outgoing<T, M> implements AsyncIterable<M> {
    /** What the input threw, which is the caller's. */
    failure: { reason: unknown } | undefined;
    readonly #attempt: number;

    constructor(
        private readonly input: Input<T>,
        private readonly sent: SentMessages<M>,
        private readonly make: (sequence: number, request: T) => M,
    ) {
        this.#attempt = sent.begin();
    }

    [Symbol.asyncIterator](): AsyncIterator<M> {
        // A call that ends calls `throw`.
        return { next: () => this.#next(), throw: (reason: unknown) => Promise.reject(reason) };
    }

    async #next(): Promise<IteratorResult<M>> {
        while (this.sent.isCurrent(this.#attempt)) {
            const message = this.sent.take();
            if (message !== undefined) return { done: false, value: message };
            if (!(await this.#pull())) break;
        }
        return { done: true, value: undefined };
    }

    async #pull(): Promise<boolean> {
        try {
            const hasNext = await this.input.pull((request) => this.sent.keep((sequence) => this.make(sequence, request)));
            if (!hasNext) this.sent.end();
            return hasNext;
        } catch (reason) {
            this.failure = { reason };
            throw reason;
        }
    }
}
