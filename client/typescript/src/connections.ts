// The connections of a client, which calls use in turns.

import type { DescMessage, DescMethodStreaming, MessageShape } from "@bufbuild/protobuf";
import type { Transport } from "@connectrpc/connect";
import type { Origin } from "./errors.js";
import type { Clock } from "./timeout.js";

/** A connection to a daemon, which is opened by its first call. */
export interface Connection extends Origin {
    readonly transport: Transport;
    /** Opens a stream of messages that are serialized, each as chunks. Only where requests can be streamed. */
    readonly openEncoded?: OpenEncoded;
    close(): void;
}

export type OpenEncoded = <I extends DescMessage, O extends DescMessage>(
    method: DescMethodStreaming<I, O>,
    signal: AbortSignal,
    timeoutMs: number,
    headers: Headers,
    messages: AsyncIterable<readonly Uint8Array[]>,
) => Promise<AsyncIterable<MessageShape<O>>>;

/** How long a daemon that cannot be reached gets no calls, if there are others. */
const REST_MS = 2_000;

export class Connections {
    #turn = 0;
    #isClosed = false;
    readonly #restUntil = new Map<Connection, number>();

    constructor(
        private readonly all: readonly Connection[],
        private readonly clock: Clock,
        /** Whether requests can be streamed: not in a browser. */
        readonly canStreamRequests: boolean,
    ) {}

    /** Returns the connection for the next call: the next one that does not rest, or the next one if all do. */
    next(): Connection {
        if (this.#isClosed) throw new Error("the client is closed");
        const now = this.clock.now();
        for (let step = 0; step < this.all.length; step += 1) {
            const candidate = this.#take();
            if ((this.#restUntil.get(candidate) ?? 0) <= now) return candidate;
        }
        return this.#take();
    }

    #take(): Connection {
        const taken = this.all[this.#turn % this.all.length];
        this.#turn += 1;
        if (taken === undefined) throw new Error("a client has at least one connection");
        return taken;
    }

    /** Lets a connection rest that could not be made. */
    rest(connection: Connection): void {
        this.#restUntil.set(connection, this.clock.now() + REST_MS);
    }

    close(): void {
        this.#isClosed = true;
        for (const connection of this.all) connection.close();
    }
}
