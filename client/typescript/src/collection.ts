// Collections: search, reads, deletions and snapshots. Writes are in upsert.ts.

import type { CallOptions, Caller } from "./caller.js";
import { choice } from "./choices.js";
import { malformed } from "./errors.js";
import { type Collection as CollectionInfo, Fusion, SimilarityService, type Snapshot } from "./generated/accelerd/v1/similarity_pb.js";
import type { Init } from "./init.js";
import { type Filter, type Id, type Ids, integer, PointIds, readIds, readPayload, type Value, wireFilter } from "./payload.js";
import type { Batches } from "./resume.js";
import { fromWireAs, type Rows, type Tensor, toRows, toWire } from "./tensor.js";
import { type Points, type UpsertOptions, type UpsertStep, upsert, upsertMany } from "./upsert.js";

const METHODS = SimilarityService.method;

/** A point that a search found. */
export interface Hit {
    readonly id: Id;
    /** The value of the collection's metric; in a hybrid search the fused score. */
    readonly score: number;
    readonly payload: Readonly<Record<string, Value>>;
}

/** A stored point. */
export interface Point {
    readonly id: Id;
    readonly payload: Readonly<Record<string, Value>>;
    /** If requested. */
    readonly vector?: Float32Array;
}

/** The queries of a search: exactly one of them. Results of stored points include those points. */
export type Queries =
    | { readonly texts: readonly string[]; readonly vectors?: undefined; readonly ids?: undefined }
    | { readonly vectors: Rows; readonly texts?: undefined; readonly ids?: undefined }
    | { readonly ids: Ids; readonly texts?: undefined; readonly vectors?: undefined };

/** Options of a search. */
export interface SearchOptions extends Filter, CallOptions {
    /** Hits of each query, after the first `offset`; default 10. */
    readonly k?: number | undefined;
    readonly offset?: number | undefined;
    /** Omits hits that score worse. */
    readonly threshold?: number | undefined;
    /** Whether to return payloads; default true. */
    readonly payload?: boolean | undefined;
    /** Whether to combine full-text search with vector search. Needs `texts` and a collection with a `textField`. */
    readonly hybrid?: boolean | undefined;
    readonly fusion?: "relative_score" | "reciprocal_rank" | undefined;
    /** Weight of the text ranking in a hybrid search, from 0 to 1; default 0.5. */
    readonly textWeight?: number | undefined;
    /** Name of the model's prompt for `texts`, or the prompt itself; default: the collection's query prompt. */
    readonly promptName?: string | undefined;
    readonly prompt?: string | undefined;
}

/** What a read of points returns. */
export interface ReadOptions extends CallOptions {
    /** Whether to return vectors; default false. */
    readonly vectors?: boolean | undefined;
}

/** Options of a read of all points. */
export interface ScrollOptions extends ReadOptions, Filter {
    /** Points of a call; default 1000. */
    readonly pageSize?: number | undefined;
    /** Whether to return payloads; default true. */
    readonly payload?: boolean | undefined;
}

/** A collection of the daemon. Calls fail with NOT_FOUND if it does not exist. */
export class Collection {
    constructor(
        private readonly caller: Caller,
        readonly name: string,
    ) {}

    /** Returns the collection's configuration and size. */
    async describe(options: CallOptions = {}): Promise<CollectionInfo> {
        const { collection } = await this.caller.call(METHODS.getCollection, { name: this.name }, this.caller.context(options));
        if (collection === undefined) throw malformed("no collection");
        return collection;
    }

    /** Deletes the collection, its log and its local snapshots. */
    async delete(options: CallOptions = {}): Promise<void> {
        await this.caller.call(METHODS.deleteCollection, { name: this.name }, this.caller.context(options));
    }

    /**
     * Inserts points, and replaces those whose ids exist. Returns the number of new points.
     *
     * The write is atomic if it fits into one message (`maxMessageBytes`) and into the timeout, as far as the daemon can tell in advance.
     * Otherwise it is split into parts, written in order, of which each is atomic. After a failure the earlier parts stay, and `done` of
     * the error says how many points they have.
     */
    upsert(points: Points, options: UpsertOptions = {}): Promise<number> {
        return upsert(this.caller, this.name, points, options);
    }

    /**
     * Upserts in bulk over one stream, and yields the number of new points of each step.
     *
     * Steps are consumed as they are sent, several of them are in flight, and each is split into messages of a few MiB, of which each is
     * atomic. After a lost connection, or the drain of a daemon, messages are sent again from the first without a response on; points that
     * were written before do not count as new then. Without a timeout there is no deadline. In a browser messages are sent one by one.
     */
    upsertMany(steps: Batches<UpsertStep>, options: CallOptions = {}): AsyncGenerator<number, void, undefined> {
        return upsertMany(this.caller, this.name, steps, options);
    }

    /** Finds the nearest points of each query, exactly. Returns the hits of each query, best first. */
    async search(queries: Queries, options: SearchOptions = {}): Promise<Hit[][]> {
        const filter = wireFilter(options);
        const request = {
            collection: this.name,
            query: wireQuery(queries),
            limit: options.k ?? 10,
            offset: options.offset ?? 0,
            includePayload: options.payload ?? true,
            hybrid: options.hybrid ?? false,
            fusion: choice("fusion", Fusion, options.fusion),
            promptName: options.promptName ?? "",
            ...(filter === undefined ? {} : { filter }),
            ...(options.prompt === undefined ? {} : { prompt: options.prompt }),
            ...(options.threshold === undefined ? {} : { scoreThreshold: options.threshold }),
            ...(options.textWeight === undefined ? {} : { textWeight: options.textWeight }),
        };
        const { results } = await this.caller.call(METHODS.search, request, this.caller.context(options));
        return results.map(({ hits }) =>
            hits.map(({ id, score, payload }) => {
                if (id.case === undefined) throw malformed("a hit without an id");
                return { id: id.case === "number" ? integer(id.value) : id.value, score, payload: readPayload(payload) };
            }),
        );
    }

    /** Returns points by id. Unknown ids are omitted. */
    async get(ids: Ids, options: ReadOptions = {}): Promise<Point[]> {
        const request = { collection: this.name, ids: new PointIds(ids).message(), includeVectors: options.vectors ?? false };
        const { ids: found, payloads, vectors } = await this.caller.call(METHODS.getPoints, request, this.caller.context(options));
        return points(readIds(found), payloads.map(readPayload), vectors && fromWireAs("f32", vectors));
    }

    /** Iterates over all points that match, in ascending order of id. The timeout is that of each page. */
    async *scroll(options: ScrollOptions = {}): AsyncGenerator<Point, void, undefined> {
        const filter = wireFilter(options);
        const request = {
            collection: this.name,
            limit: options.pageSize ?? 1_000,
            includePayload: options.payload ?? true,
            includeVectors: options.vectors ?? false,
            ...(filter === undefined ? {} : { filter }),
        };
        let cursor = new Uint8Array();
        do {
            const page = await this.caller.call(METHODS.scrollPoints, { ...request, cursor }, this.caller.context(options));
            yield* points(readIds(page.ids), page.payloads.map(readPayload), page.vectors && fromWireAs("f32", page.vectors));
            cursor = new Uint8Array(page.nextCursor);
        } while (cursor.length > 0);
    }

    /** Returns the exact number of points that match. */
    async count(options: Filter & CallOptions = {}): Promise<number> {
        const filter = wireFilter(options);
        const request = { collection: this.name, ...(filter === undefined ? {} : { filter }) };
        return Number((await this.caller.call(METHODS.countPoints, request, this.caller.context(options))).pointCount);
    }

    /** Deletes the points with these ids that match all conditions; without ids, all that match. Returns how many were deleted. */
    async deletePoints(selection: Filter & { readonly ids?: Ids | undefined }, options: CallOptions = {}): Promise<number> {
        const filter = wireFilter(selection, selection.ids);
        const request = { collection: this.name, ...(filter === undefined ? {} : { filter }) };
        return Number((await this.caller.call(METHODS.deletePoints, request, this.caller.context(options))).deletedCount);
    }

    /** Writes a versioned snapshot to the object store of a URL, by default the one in the daemon's settings. */
    async snapshot(options: CallOptions & { readonly url?: string | undefined } = {}): Promise<Snapshot> {
        const request = { collection: this.name, url: options.url ?? "" };
        const { snapshot } = await this.caller.call(METHODS.createSnapshot, request, this.caller.context(options));
        if (snapshot === undefined) throw malformed("no snapshot");
        return snapshot;
    }
}

function points(ids: readonly Id[], payloads: readonly Record<string, Value>[], vectors: Tensor<"f32"> | undefined): Point[] {
    return ids.map((id, at) => ({ id, payload: payloads[at] ?? {}, ...(vectors === undefined ? {} : { vector: vectors.row(at) }) }));
}

function wireQuery(queries: Queries): NonNullable<Init<typeof METHODS.search.input>["query"]> {
    if (queries.texts !== undefined) return { case: "texts", value: { values: [...queries.texts] } };
    if (queries.vectors !== undefined) return { case: "vectors", value: toWire(toRows(queries.vectors, "vectors")) };
    return { case: "ids", value: new PointIds(queries.ids).unpacked() };
}
