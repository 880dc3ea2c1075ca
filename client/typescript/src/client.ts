// The client: its methods are the calls of the daemon.

import type { DescService } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import type { Outcome } from "./batches.js";
import { type CallOptions, Caller, iterate } from "./caller.js";
import { Collection } from "./collection.js";
import type { Connections } from "./connections.js";
import * as embedding from "./embed.js";
import type { Model } from "./generated/accelerd/v1/embed_pb.js";
import { type Device, DeviceService, type DrainResponse, type GetStatsResponse } from "./generated/accelerd/v1/device_pb.js";
import type { CompileResponse, Kernel, TranslateResponse } from "./generated/accelerd/v1/kernel_pb.js";
import type { CompareOutputsResponse, VerifySummary } from "./generated/accelerd/v1/verify_pb.js";
import * as graphs from "./graph.js";
import * as kernels from "./kernel.js";
import * as parsing from "./parse.js";
import type { Batches } from "./resume.js";
import * as similarity from "./similarity.js";
import { type Stub, stub } from "./stub.js";
import type { Rows, Tensor } from "./tensor.js";
import { checkedTimeout, systemClock } from "./timeout.js";
import * as verification from "./verify.js";

/** Options of a client. */
export interface ClientOptions {
    /** Bearer token of every call. It is sent only over TLS, over a Unix socket and to this machine. */
    readonly token?: string | undefined;
    /** Whether to send the token in plaintext to other machines, for networks that encrypt by other means, such as a service mesh. */
    readonly allowPlaintextToken?: boolean | undefined;
    /** Default timeout of a call in milliseconds, retries included; default 60,000. Infinity, or more than a day, means no deadline. */
    readonly timeoutMs?: number | undefined;
    /** Maximum attempts of a call; 1 disables retries. By default only the timeout bounds them, and a minute where there is none. */
    readonly attempts?: number | undefined;
    /** Maximum size of a request; larger calls are split. At most the daemon's setting `server.max_message_bytes`; default 64 MiB. */
    readonly maxMessageBytes?: number | undefined;
}

const DEFAULT_TIMEOUT_MS = 60_000;
const DEFAULT_MESSAGE_BYTES = 64 << 20;

function atLeastOne(name: string, value: number): number {
    if (!(value >= 1)) throw new RangeError(`${name}: expected at least 1, got ${value}`);
    return value;
}

/**
 * Calls of a daemon. A call that fails rejects with an `AccelerdError`.
 *
 * `timeoutMs` of a call includes its retries; only the streams whose length the caller decides, `embedStream`, `parseStream` and
 * `upsertMany`, have no deadline unless one is given. `signal` cancels a call. The end of the iteration over a stream, such as by `break`,
 * cancels the stream.
 */
export class BaseClient {
    readonly #caller: Caller;

    protected constructor(connections: Connections, token: string | undefined, options: ClientOptions) {
        const timeoutMs = checkedTimeout(options.timeoutMs ?? DEFAULT_TIMEOUT_MS);
        if (timeoutMs === 0) throw new RangeError("timeoutMs: expected a positive number of milliseconds, got 0");
        const settings = {
            timeoutMs,
            attempts: atLeastOne("attempts", options.attempts ?? Infinity),
            maxMessageBytes: atLeastOne("maxMessageBytes", options.maxMessageBytes ?? DEFAULT_MESSAGE_BYTES),
            token,
        };
        this.#caller = new Caller(settings, connections, systemClock);
    }

    /** Returns a generated service, such as `EmbedService`, whose calls have the client's token, deadline and retries. */
    stub<S extends DescService>(service: S): Stub<S> {
        return stub(this.#caller, service);
    }

    /** Closes the connections. Calls in progress and later ones fail. */
    close(): void {
        this.#caller.connections.close();
    }

    /** Embeds texts: [texts, dimensions], in parts if they exceed a message. */
    embed<O extends embedding.Output = "f32">(
        texts: readonly string[],
        options: embedding.EmbedOptions<O> = {},
    ): Promise<embedding.Vectors<O>> {
        return embedding.embed(this.#caller, texts, options);
    }

    /** Embeds lists of token ids, such as those of `tokenize`. */
    embedTokens<O extends embedding.Output = "f32">(
        tokens: readonly (readonly number[])[],
        options: embedding.EmbedOptions<O> = {},
    ): Promise<embedding.Vectors<O>> {
        return embedding.embedTokens(this.#caller, tokens, options);
    }

    /** Embeds batches of texts over one stream. Outcomes come in the order of completion; a batch that fails does not end the stream. */
    embedStream<O extends embedding.Output = "f32">(
        batches: Batches<readonly string[]>,
        options: embedding.EmbedOptions<O> = {},
    ): AsyncGenerator<embedding.EmbedOutcome<O>, void, undefined> {
        return embedding.embedStream(this.#caller, batches, options);
    }

    /** Ranks documents by their relevance to a query, best first. */
    rerank(query: string, documents: readonly string[], options: embedding.RerankOptions): Promise<embedding.Ranked[]> {
        return embedding.rerank(this.#caller, query, documents, options);
    }

    /** Returns the token ids of each text, special tokens included. */
    tokenize(texts: readonly string[], options: CallOptions & { readonly model?: string } = {}): Promise<number[][]> {
        return embedding.tokenize(this.#caller, texts, options);
    }

    /** Returns the loaded models. */
    models(options: CallOptions = {}): Promise<Model[]> {
        return embedding.models(this.#caller, options);
    }

    /** Loads a model: a path on the daemon's machine, or `hf://owner/name`. */
    loadModel(name: string, path: string, options: embedding.LoadModelOptions = {}): Promise<Model> {
        return embedding.loadModel(this.#caller, name, path, options);
    }

    unloadModel(name: string, options: CallOptions = {}): Promise<void> {
        return embedding.unloadModel(this.#caller, name, options);
    }

    /** Finds the k nearest rows of a corpus for each query, exactly. */
    findSimilar(queries: Rows, corpus: Rows, k: number, options: similarity.FindSimilarOptions = {}): Promise<similarity.Similar> {
        return similarity.findSimilar(this.#caller, queries, corpus, k, options);
    }

    /** Clusters rows, or all points of a collection, by k-means. */
    cluster(source: Rows | Collection, clusters: number, options: similarity.ClusterOptions = {}): Promise<similarity.Clusters> {
        return similarity.cluster(this.#caller, source, clusters, options);
    }

    /** Returns a collection by its name, without a call. */
    collection(name: string): Collection {
        return new Collection(this.#caller, name);
    }

    /** Returns all collections, sorted by name. */
    collections(options: CallOptions = {}): Promise<similarity.CollectionInfo[]> {
        return similarity.collections(this.#caller, options);
    }

    createCollection(name: string, options: similarity.CreateCollectionOptions): Promise<Collection> {
        return similarity.createCollection(this.#caller, name, options);
    }

    /** Creates a collection from a snapshot. */
    restoreCollection(url: string, options: CallOptions & { readonly name?: string } = {}): Promise<Collection> {
        return similarity.restoreCollection(this.#caller, url, options);
    }

    /** Parses Python. The result of a source with a syntax error has a `diagnostic`; the call succeeds. */
    parse(sources: readonly parsing.Source[], options: parsing.ParseOptions = {}): Promise<parsing.Parsed[]> {
        return parsing.parse(this.#caller, sources, options);
    }

    /** Parses batches of sources over one stream. Outcomes come in the order of completion. */
    parseStream(
        batches: Batches<readonly parsing.Source[]>,
        options: parsing.ParseOptions = {},
    ): AsyncGenerator<Outcome<parsing.Parsed[]>, void, undefined> {
        return parsing.parseStream(this.#caller, batches, options);
    }

    /** Computes values of a graph in one call. */
    execute(values: readonly graphs.GraphValue[], options: graphs.ExecuteOptions = {}): Promise<Tensor[]> {
        return graphs.execute(this.#caller, values, options);
    }

    /** Computes values of a graph, which stay on a device of the daemon. */
    keep(values: readonly graphs.GraphValue[], options: graphs.KeepOptions = {}): Promise<graphs.ResidentTensor[]> {
        return graphs.keep(this.#caller, values, options);
    }

    /** Uploads a tensor, which stays on a device of the daemon until `free`, or until it is not used for its time to live. */
    upload(tensor: Tensor, options: graphs.KeepOptions = {}): Promise<graphs.ResidentTensor> {
        return graphs.upload(this.#caller, tensor, options);
    }

    download(tensor: graphs.ResidentTensor, options: CallOptions = {}): Promise<Tensor> {
        return graphs.download(this.#caller, tensor, options);
    }

    free(tensors: readonly graphs.ResidentTensor[], options: CallOptions = {}): Promise<void> {
        return graphs.free(this.#caller, tensors, options);
    }

    /** Copies a resident tensor to a device. */
    copy(tensor: graphs.ResidentTensor, device: string, options: graphs.KeepOptions = {}): Promise<graphs.ResidentTensor> {
        return graphs.copy(this.#caller, tensor, device, options);
    }

    /** Returns the caller's resident tensors, oldest first. */
    listTensors(options: CallOptions = {}): Promise<graphs.ResidentTensor[]> {
        return graphs.listTensors(this.#caller, options);
    }

    /** Translates the kernels of a module to CUDA C++ and WebAssembly. */
    translate(source: string, options: kernels.TranslateOptions = {}): Promise<TranslateResponse> {
        return kernels.translate(this.#caller, source, options);
    }

    /** Compiles a kernel, which the daemon keeps. */
    compile(program: kernels.Program | string, options: kernels.CompileOptions = {}): Promise<CompileResponse> {
        return kernels.compile(this.#caller, program, options);
    }

    /** Runs a kernel. Rejects with a `KernelFault` if it does what its dialect forbids. */
    launch(
        program: kernels.Program | string,
        args: Readonly<Record<string, kernels.Argument>>,
        options: kernels.LaunchOptions = {},
    ): Promise<kernels.Launched> {
        return kernels.launch(this.#caller, program, args, options);
    }

    /** Returns the kernels that are kept, the most recently used first. */
    listKernels(options: CallOptions = {}): Promise<Kernel[]> {
        return kernels.listKernels(this.#caller, options);
    }

    evictKernel(kernelId: string, options: CallOptions = {}): Promise<void> {
        return kernels.evictKernel(this.#caller, kernelId, options);
    }

    /** Says whether outputs are equal within a tolerance: `passed`, and the differences of each output. */
    compare(
        actual: verification.Compared,
        expected: verification.Compared,
        options: verification.CompareOptions = {},
    ): Promise<CompareOutputsResponse> {
        return verification.compare(this.#caller, actual, expected, options);
    }

    /** Says whether a subject computes what a reference computes, and if not, for which inputs. Not in a browser. */
    verify(subject: verification.Side, reference: verification.Side, options: verification.VerifyOptions = {}): Promise<VerifySummary> {
        return verification.verify(this.#caller, subject, reference, options);
    }

    /** Returns the daemon's devices: GPUs first, then the CPU worker pool. */
    async devices(options: CallOptions = {}): Promise<Device[]> {
        return (await this.#caller.call(DeviceService.method.listDevices, {}, this.#caller.context(options))).devices;
    }

    /** Returns statistics of queues, batches, memory and kernels since the daemon's start. */
    stats(options: CallOptions = {}): Promise<GetStatsResponse> {
        return this.#caller.call(DeviceService.method.getStats, {}, this.#caller.context(options));
    }

    /** Yields statistics at an interval, by default of a second, until the iteration ends. Without a timeout there is no deadline. */
    async *watch(options: CallOptions & { readonly intervalMs?: number } = {}): AsyncGenerator<GetStatsResponse, void, undefined> {
        const request = options.intervalMs === undefined ? {} : { interval: durationFromMs(options.intervalMs) };
        const context = this.#caller.context(options, Infinity);
        for await (const { stats } of this.#caller.retried(DeviceService.method.watch, () => iterate([request]), context)) {
            if (stats !== undefined) yield stats;
        }
    }

    /** Stops accepting work and completes what is accepted. Needs the daemon's setting `drain.allow_rpc`. */
    drain(options: CallOptions & { readonly drainTimeoutMs?: number } = {}): Promise<DrainResponse> {
        const request = options.drainTimeoutMs === undefined ? {} : { timeout: durationFromMs(options.drainTimeoutMs) };
        return this.#caller.call(DeviceService.method.drain, request, this.#caller.context(options));
    }

    /** Ends a drain. Returns whether the daemon was draining or drained. */
    async resume(options: CallOptions = {}): Promise<boolean> {
        return (await this.#caller.call(DeviceService.method.resume, {}, this.#caller.context(options))).resumed;
    }
}
