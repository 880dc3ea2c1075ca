// Exact search and clustering of rows, and collections.

import type { Collection as CollectionInfo } from "./generated/accelerd/v1/similarity_pb.js";
import { Durability, Metric, SimilarityService } from "./generated/accelerd/v1/similarity_pb.js";
import { type CallOptions, type Caller } from "./caller.js";
import { choice } from "./choices.js";
import { Collection } from "./collection.js";
import { type Id, readIds } from "./payload.js";
import { type Rows, type Tensor, fromWireAs, toRows, toWire, wireDtype } from "./tensor.js";

export type { CollectionInfo };
/** Similarity metric; cosine and dot are higher for nearer rows, squared_l2 is lower. */
export type MetricName = "cosine" | "dot" | "squared_l2";

/** Options of a search in rows. */
export interface FindSimilarOptions extends CallOptions {
    /** Default cosine. */
    readonly metric?: MetricName | undefined;
    /** Omits rows that score worse. */
    readonly threshold?: number | undefined;
}

/** The nearest rows of each query, best first. */
export interface Similar {
    /** [queries, k]; -1 where fewer rows pass the threshold. */
    readonly indices: Tensor<"i32">;
    /** [queries, k]; NaN where the index is -1. */
    readonly scores: Tensor<"f32">;
}

/** Options of a clustering. */
export interface ClusterOptions extends CallOptions {
    /** Maximum Lloyd iterations; default 100. */
    readonly maxIterations?: number | undefined;
    /** Stops when the squared movement of the centers falls below this fraction of the data's variance; default 1e-4. */
    readonly tolerance?: number | undefined;
    /** Initialisations to run, of which the best result is returned; default 1. */
    readonly initCount?: number | undefined;
    /** Whether to normalise rows and centers. */
    readonly spherical?: boolean | undefined;
    readonly seed?: number | bigint | undefined;
}

/** The result of k-means. */
export interface Clusters {
    /** [clusters, dimensions]. */
    readonly centers: Tensor<"f32">;
    /** The cluster of each row. */
    readonly assignments: Int32Array;
    /** Sum of squared distances of the rows to their centers. */
    readonly inertia: number;
    readonly iterations: number;
    /** Whether the tolerance was reached. */
    readonly converged: boolean;
    /** Id of each row, if the rows are those of a collection. */
    readonly ids: readonly Id[];
}

/** Options of a new collection. It has `dimensions` or a `model`, which embeds texts. */
export interface CreateCollectionOptions extends CallOptions {
    readonly dimensions?: number | undefined;
    /** Default cosine. */
    readonly metric?: MetricName | undefined;
    /** Element type of stored vectors; default f32. */
    readonly storage?: "f32" | "f16" | "bf16" | "i8" | undefined;
    readonly model?: string | undefined;
    /** Payload field with a full-text index, for hybrid searches. */
    readonly textField?: string | undefined;
    /** Whether writes survive a crash; default: if the daemon has a data folder. */
    readonly durable?: boolean | undefined;
    /** Prompts of the model, by name or text. */
    readonly documentPromptName?: string | undefined;
    readonly documentPrompt?: string | undefined;
    readonly queryPromptName?: string | undefined;
    readonly queryPrompt?: string | undefined;
}

export async function findSimilar(caller: Caller, queries: Rows, corpus: Rows, k: number, options: FindSimilarOptions): Promise<Similar> {
    const message = {
        queries: toWire(toRows(queries, "queries")),
        corpus: toWire(toRows(corpus, "corpus")),
        k,
        metric: choice("metric", Metric, options.metric),
        ...(options.threshold === undefined ? {} : { scoreThreshold: options.threshold }),
    };
    const { indices, scores } = await caller.call(SimilarityService.method.findSimilar, message, caller.context(options));
    return { indices: fromWireAs("i32", indices), scores: fromWireAs("f32", scores) };
}

export async function cluster(caller: Caller, source: Rows | Collection, clusters: number, options: ClusterOptions): Promise<Clusters> {
    const input =
        source instanceof Collection
            ? { case: "collection" as const, value: source.name }
            : { case: "vectors" as const, value: toWire(toRows(source, "source")) };
    const message = {
        input,
        clusterCount: clusters,
        maxIterations: options.maxIterations ?? 0,
        initCount: options.initCount ?? 0,
        spherical: options.spherical ?? false,
        seed: BigInt(options.seed ?? 0),
        ...(options.tolerance === undefined ? {} : { tolerance: options.tolerance }),
    };
    const found = await caller.call(SimilarityService.method.cluster, message, caller.context(options));
    return {
        centers: fromWireAs("f32", found.centers),
        assignments: fromWireAs("i32", found.assignments).data,
        inertia: found.inertia,
        iterations: found.iterationCount,
        converged: found.converged,
        ids: readIds(found.ids),
    };
}

export async function createCollection(caller: Caller, name: string, options: CreateCollectionOptions): Promise<Collection> {
    const durability = { undefined: Durability.UNSPECIFIED, true: Durability.LOG, false: Durability.MEMORY };
    const message = {
        name,
        dimensions: options.dimensions ?? 0,
        metric: choice("metric", Metric, options.metric),
        model: options.model ?? "",
        textField: options.textField ?? "",
        durability: durability[`${options.durable}`],
        documentPromptName: options.documentPromptName ?? "",
        queryPromptName: options.queryPromptName ?? "",
        ...(options.storage === undefined ? {} : { storage: wireDtype(options.storage) }),
        ...(options.documentPrompt === undefined ? {} : { documentPrompt: options.documentPrompt }),
        ...(options.queryPrompt === undefined ? {} : { queryPrompt: options.queryPrompt }),
    };
    await caller.call(SimilarityService.method.createCollection, message, caller.context(options));
    return new Collection(caller, name);
}

export async function collections(caller: Caller, options: CallOptions): Promise<CollectionInfo[]> {
    return (await caller.call(SimilarityService.method.listCollections, {}, caller.context(options))).collections;
}

export async function restoreCollection(
    caller: Caller,
    url: string,
    options: CallOptions & { readonly name?: string | undefined },
): Promise<Collection> {
    const message = { url, name: options.name ?? "" };
    const { collection } = await caller.call(SimilarityService.method.restoreCollection, message, caller.context(options));
    return new Collection(caller, collection?.name ?? "");
}
