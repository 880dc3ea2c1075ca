// Calls with the client's token, deadline and retries, for the client's own methods and for generated stubs.

import type { DescMessage, DescMethodStreaming, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import type { Connection, Connections } from "./connections.js";
import { AccelerdError, cancelled, fromCall, late } from "./errors.js";
import { Attempts, RetryBudget } from "./retry.js";
import { type Clock, checkedTimeout } from "./timeout.js";

/** Options of a call. */
export interface CallOptions {
    /** Milliseconds for the whole call, retries included. Default: the client's. Infinity, or more than a day, means no deadline. */
    readonly timeoutMs?: number | undefined;
    /** Cancels the call. */
    readonly signal?: AbortSignal | undefined;
    /** Additional metadata. */
    readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** Settings of a client. */
export interface Settings {
    readonly timeoutMs: number;
    readonly attempts: number;
    readonly maxMessageBytes: number;
    readonly token: string | undefined;
}

/** The deadline, signal and metadata of a call. */
export interface CallContext {
    readonly deadline: number;
    readonly signal: AbortSignal | undefined;
    readonly headers: Readonly<Record<string, string>> | undefined;
}

type Streaming<I extends DescMessage, O extends DescMessage> = DescMethodStreaming<I, O>;

/** Makes calls. */
export class Caller {
    readonly #budget: RetryBudget;

    constructor(
        readonly settings: Settings,
        readonly connections: Connections,
        private readonly clock: Clock,
    ) {
        this.#budget = new RetryBudget(clock);
    }

    /** Returns the context of a call with these options. */
    context(options: CallOptions, defaultTimeoutMs: number = this.settings.timeoutMs): CallContext {
        const timeoutMs = checkedTimeout(options.timeoutMs ?? defaultTimeoutMs);
        return { deadline: this.clock.now() + timeoutMs, signal: options.signal, headers: options.headers };
    }

    /** Makes a unary call. */
    async call<I extends DescMessage, O extends DescMessage>(
        method: DescMethodUnary<I, O>,
        input: MessageInitShape<I>,
        context: CallContext,
        isIdempotent: boolean = isRepeatable(method),
    ): Promise<MessageShape<O>> {
        const attempts = this.attempts(context, isIdempotent);
        for (;;) {
            const timeoutMs = this.#left(context);
            const connection = this.connections.next();
            try {
                const response = await connection.transport.unary(method, context.signal, timeoutMs, this.#headers(context), input);
                return response.message;
            } catch (failed) {
                await this.retry(attempts, this.#problem(failed, connection, context), context);
            }
        }
    }

    /** Iterates over the responses of one attempt of a stream. The end of the iteration cancels the call. */
    responses<I extends DescMessage, O extends DescMessage>(
        method: Streaming<I, O>,
        requests: AsyncIterable<MessageInitShape<I>>,
        context: CallContext,
    ): AsyncGenerator<MessageShape<O>, void, undefined> {
        this.#checkStreaming(method);
        return this.#responses(context, async ({ transport }, signal, timeoutMs, headers) => {
            return (await transport.stream(method, signal, timeoutMs, headers, requests)).message;
        });
    }

    /** Iterates like `responses`, with requests that are serialized, each as chunks: so large arrays are sent without a copy. */
    encodedResponses<I extends DescMessage, O extends DescMessage>(
        method: Streaming<I, O>,
        requests: AsyncIterable<readonly Uint8Array[]>,
        context: CallContext,
    ): AsyncGenerator<MessageShape<O>, void, undefined> {
        return this.#responses(context, ({ openEncoded }, signal, timeoutMs, headers) => {
            if (openEncoded === undefined) throw new Error("expected a connection that streams requests");
            return openEncoded(method, signal, timeoutMs, headers, requests);
        });
    }

    async *#responses<T>(
        context: CallContext,
        open: (connection: Connection, signal: AbortSignal, timeoutMs: number, headers: Headers) => Promise<AsyncIterable<T>>,
    ): AsyncGenerator<T, void, undefined> {
        const connection = this.connections.next();
        const ended = new AbortController();
        const signal = context.signal === undefined ? ended.signal : AbortSignal.any([context.signal, ended.signal]);
        let messages: AsyncIterator<T> | undefined;
        try {
            messages = (await open(connection, signal, this.#left(context), this.#headers(context)))[Symbol.asyncIterator]();
            for (let next = await messages.next(); next.done !== true; next = await messages.next()) yield next.value;
        } catch (failed) {
            throw this.#problem(failed, connection, context);
        } finally {
            ended.abort();
            // Only then does Connect clear the timer of the deadline, which keeps Node alive.
            messages?.next().catch(() => undefined);
        }
    }

    /** Iterates over the responses of a stream, which is retried until the first of them. */
    async *retried<I extends DescMessage, O extends DescMessage>(
        method: Streaming<I, O>,
        requests: () => AsyncIterable<MessageInitShape<I>>,
        context: CallContext,
    ): AsyncGenerator<MessageShape<O>, void, undefined> {
        const attempts = this.attempts(context, isRepeatable(method));
        for (;;) {
            let hasResponse = false;
            try {
                for await (const response of this.responses(method, requests(), context)) {
                    hasResponse = true;
                    yield response;
                }
                return;
            } catch (problem) {
                if (hasResponse || !(problem instanceof AccelerdError)) throw problem;
                await this.retry(attempts, problem, context);
            }
        }
    }

    /** Returns the attempts of a call. */
    attempts(context: CallContext, isIdempotent: boolean): Attempts {
        const options = { deadline: context.deadline, limit: this.settings.attempts, isIdempotent };
        return new Attempts(this.clock, this.#budget, options);
    }

    /** Waits until the next attempt. Throws the problem if it is final. */
    async retry(attempts: Attempts, problem: AccelerdError, { signal }: CallContext): Promise<void> {
        const wait = attempts.wait(problem);
        try {
            await this.clock.sleep(wait, signal);
        } catch {
            throw cancelled(signal);
        }
    }

    #problem(failed: unknown, connection: Connection, context: CallContext): AccelerdError {
        const problem = fromCall(failed, connection, context.signal);
        if (!problem.isSent) this.connections.rest(connection);
        return problem;
    }

    /** Returns the milliseconds until the deadline as Connect takes them, where 0 means no deadline. */
    #left({ deadline, signal }: CallContext): number {
        if (signal?.aborted) throw cancelled(signal);
        if (deadline === Infinity) return 0;
        const left = Math.ceil(deadline - this.clock.now());
        if (left <= 0) throw late();
        return left;
    }

    #headers({ headers: given }: CallContext): Headers {
        const headers = new Headers(given);
        if (this.settings.token !== undefined) headers.set("authorization", `Bearer ${this.settings.token}`);
        return headers;
    }

    #checkStreaming(method: Streaming<DescMessage, DescMessage>): void {
        if (this.connections.canStreamRequests || method.methodKind === "server_streaming") return;
        const message = `${method.name} streams requests, which a browser cannot send: use a unary call, or Node`;
        throw new AccelerdError("UNIMPLEMENTED", message, { reason: "REQUEST_STREAM_UNSUPPORTED", isSent: false });
    }
}

/** Whether a call may be retried although the daemon may have executed it. */
function isRepeatable(method: { readonly idempotency: MethodOptions_IdempotencyLevel }): boolean {
    return method.idempotency !== MethodOptions_IdempotencyLevel.IDEMPOTENCY_UNKNOWN;
}

/** Iterates over items of either kind of iterable. */
export async function* iterate<T>(items: Iterable<T> | AsyncIterable<T>): AsyncGenerator<T, void, undefined> {
    yield* items;
}
